"""What a file says about embeddings that are looked up by the last tokens together."""

from __future__ import annotations

from dataclasses import dataclass

from llamapy.loader.bounded import MAX_COUNT, Keys, count, wrong

MAX_TOKENS, MAX_SPAN = 8, 32  # of one lookup; of the convolution


@dataclass(frozen=True, slots=True)
class Ngrams:
    """The last 2, 3, .. `n` tokens are hashed, each number of them for `per` heads, whose rows
    [offset, offset + size) of one table are `width` wide. Layer `layer` reads them, -1: none does,
    behind a convolution of `taps` taps, `n` tokens apart. `eos` ends what is looked back at."""

    layer: int = -1
    n: int = 0
    per: int = 0
    width: int = 0
    taps: int = 0
    eos: int = 0
    multipliers: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def n_rows(self) -> int:
        """That the table has at least."""
        return max(o + s for o, s in zip(self.offsets, self.sizes, strict=True))


def read_ngrams(file: Keys, arch: str, n_layer: int, n_embd: int) -> Ngrams:
    """FileError for tables that no i32 can index and for heads that do not fill the width."""
    pre = f"{arch}.ple."
    layers = file.get_array(f"{pre}layers") if f"{pre}layers" in file.keys else ()
    if not len(layers):
        return Ngrams()
    if len(layers) > 1 or not 0 <= layers[0] < n_layer:
        raise wrong(file, f"{pre}layers", f"one of {n_layer} layers", list(layers)[:4])
    n, per = count(file, f"{pre}ngram_size", least=2), count(file, f"{pre}heads_per_ngram", least=1)
    if n > MAX_TOKENS:
        raise wrong(file, f"{pre}ngram_size", f"at most {MAX_TOKENS}", n)
    width = count(file, f"{arch}.embedding_length_per_layer_input", least=1)
    taps = count(file, f"{pre}conv_kernel", least=2)
    if (taps - 1) * n >= MAX_SPAN:
        raise wrong(file, f"{pre}conv_kernel", f"taps, {n} apart, within {MAX_SPAN} tokens", taps)
    heads = (n - 1) * per
    if heads * width != n_embd:
        expected = f"{n_embd} channels for {heads} heads"
        raise wrong(file, f"{arch}.embedding_length_per_layer_input", expected, width)
    return Ngrams(
        layers[0],
        n,
        per,
        width,
        taps,
        count(file, f"{pre}eos_token_id"),
        _numbers(file, f"{pre}layer_multipliers", n, (1 << 64) - 1),
        _numbers(file, f"{pre}head_offsets", heads, MAX_COUNT // 2),
        _numbers(file, f"{pre}head_vocab_sizes", heads, MAX_COUNT // 2, 1),
    )


def _numbers(file: Keys, key: str, n: int, most: int, least: int = 0) -> tuple[int, ...]:
    """The first n of an array."""
    values = tuple(file.get_array(key))[:n]
    if len(values) < n or any(type(v) is not int or not least <= v <= most for v in values):
        raise wrong(file, key, f"{n} numbers from {least} to {most}", values[:4])
    return values
