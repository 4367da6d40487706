"""What a file says about a model of an encoder, and a decoder that reads what it made."""

from __future__ import annotations

from dataclasses import dataclass

from llamapy.loader.bounded import Keys, count, wrong

MAX_BUCKETS = 128  # further ones would have no distance of their own


@dataclass(frozen=True, slots=True)
class Stacks:
    """Layers of the encoder come first, then `n_dec` of the decoder. Scores have one of `n_buckets`
    biases, by distance. `start`: the token that the decoder begins with."""

    n_enc: int = 0
    n_dec: int = 0
    n_buckets: int = 0
    start: int = 0


def read_stacks(file: Keys, arch: str, n_enc: int, *, decodes: bool) -> Stacks:
    """FileError for a number of buckets that does not halve twice, or is beyond all distances."""
    key = f"{arch}.attention.relative_buckets_count"
    n = count(file, key)
    if n % 4 or not 4 <= n <= MAX_BUCKETS:
        raise wrong(file, key, f"a multiple of 4 from 4 to {MAX_BUCKETS}", n)
    if not decodes:
        return Stacks(n_enc, 0, n)
    n_dec = count(file, f"{arch}.decoder_block_count", n_enc, 1)
    if n_dec > 512:
        raise wrong(file, f"{arch}.decoder_block_count", "at most 512", n_dec)
    start = count(file, f"{arch}.decoder_start_token_id", 0)
    return Stacks(n_enc, n_dec, n, start)
