"""What a file says about its RWKV layers."""

from __future__ import annotations

from dataclasses import dataclass

from llamapy.loader.bounded import Keys, count, wrong


@dataclass(frozen=True, slots=True)
class Rwkv:
    """Heads of `n_embd_head` channels. Ranks of the pairs of matrices that make a decay, a learning
    rate, a share of the first layer's values, a gate (RWKV-7), or what the five inputs are mixed by
    (`n_mix`, RWKV-6). Every `halve`-th layer's result is halved, 0: none."""

    n_embd_head: int = 0
    n_head: int = 0
    n_decay: int = 0
    n_rate: int = 0
    n_value: int = 0
    n_gate: int = 0
    n_mix: int = 0
    halve: int = 0
    n_head_kv: int = 0  # heads of keys and values, each shared by as many of the others

    @property
    def heads(self) -> tuple[int, int]:
        return self.n_embd_head, self.n_head


def read_rwkv(file: Keys, arch: str, n_embd: int, n_head_kv: int, version: int) -> Rwkv:
    """Of version 6 or 7; `n_head_kv` 0: as many as heads. FileError for heads that do not fill the
    width or cannot share keys."""
    pre = f"{arch}."
    size = count(file, f"{pre}wkv.head_size", least=1)
    if n_embd % size:
        raise wrong(file, f"{pre}wkv.head_size", f"a divisor of {n_embd} channels", size)
    n_head = n_embd // size
    n_head_kv = n_head_kv or n_head
    if n_head % n_head_kv:
        key = f"{pre}attention.head_count_kv"
        raise wrong(file, key, f"a divisor of {n_head} heads", n_head_kv)
    if version == 6:
        return Rwkv(
            size,
            n_head,
            n_head_kv=n_head_kv,
            n_decay=count(file, f"{pre}time_decay_extra_dim", least=1),
            n_mix=count(file, f"{pre}time_mix_extra_dim", least=1),
            halve=count(file, f"{pre}rescale_every_n_layers", 0),
        )

    def rank(name: str) -> int:
        return count(file, f"{pre}attention.{name}_lora_rank", 0)

    return Rwkv(
        size,
        n_head,
        rank("decay"),
        rank("iclr"),
        rank("value_residual_mix"),
        rank("gate"),
        n_head_kv=n_head,
    )
