"""What a file says about multi-head latent attention (DeepSeek-V2, arXiv 2405.04434)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llamapy.loader.bounded import Keys, count, wrong


@dataclass(frozen=True, slots=True)
class Mla:
    """Ranks of q (0: not compressed) and of k and v together, the rotated elements of a head, and a
    head's sizes once decompressed. `absorbed`: the file has what attends to the compressed form."""

    rank_q: int = 0
    rank_kv: int = 0
    n_rot: int = 0
    n_head_k: int = 0
    n_head_v: int = 0
    absorbed: bool = True

    @property
    def n_plain(self) -> int:
        """Elements of a head of q and k that are not rotated."""
        return self.n_head_k - self.n_rot


def read_mla(file: Keys, arch: str, *, head_k: int, head_v: int, n_rot: int) -> Mla:
    """`head_k` and `head_v` are the sizes of files without keys for the decompressed ones, whose
    heads are not absorbed."""
    pre = f"{arch}.attention."
    absorbed = f"{pre}key_length_mla" in file.keys
    n_k = count(file, f"{pre}key_length_mla", head_k, 1)
    n_v = count(file, f"{pre}value_length_mla", head_v, 1)
    if n_k < n_rot + absorbed:
        raise wrong(file, f"{pre}key_length_mla", f"more than the {n_rot} rotated elements", n_k)
    return Mla(
        count(file, f"{pre}q_lora_rank", 0),
        count(file, f"{pre}kv_lora_rank", least=1),
        n_rot,
        n_k,
        n_v,
        absorbed,
    )


def yarn_scale(file: Keys, arch: str, freq_scale: float) -> float:
    """What YaRN multiplies scores by: (1 + multiplier * ln(factor))^2."""
    multiplier = file.get_float(f"{arch}.rope.scaling.yarn_log_multiplier", 0.0)
    return (1.0 - multiplier * math.log(freq_scale)) ** 2
