"""What a file says about adapters that tokens of the text switch on (Granite Switch)."""

from __future__ import annotations

from dataclasses import dataclass

from llamapy.loader.bounded import Keys, count, counts, not_negative, wrong

MAX_ADAPTERS = 4096


@dataclass(frozen=True, slots=True)
class Adapters:
    """`activate[i]`: the token that switches adapter i + 1 on for all that come after it,
    `substitute[i]`: the one that is read in its place. `rank` of their matrices; `gain`: how much
    such a token outweighs others."""

    n: int = 0
    rank: int = 0
    gain: float = 15.0
    activate: tuple[int, ...] = ()
    substitute: tuple[int, ...] = ()


def read_adapters(file: Keys, arch: str, n_vocab: int) -> Adapters:
    pre = f"{arch}.adapters."
    n, rank = count(file, f"{pre}count", least=1), count(file, f"{pre}lora_rank", least=1)
    if max(n, rank) > MAX_ADAPTERS:
        raise wrong(file, f"{pre}count", f"at most {MAX_ADAPTERS}, of as small a rank", (n, rank))
    ids = []
    for key in (f"{pre}token_ids_activate", f"{pre}token_ids_substitute"):
        if len(file.get_array(key)) != n:
            raise wrong(file, key, f"{n} tokens", len(file.get_array(key)))
        ids.append(counts(file, key, n))
        if max(ids[-1]) >= n_vocab:
            raise wrong(file, key, f"ids below {n_vocab}", max(ids[-1]))
    return Adapters(n, rank, not_negative(file, f"{pre}router_gain", 15.0), *ids)
