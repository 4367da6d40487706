"""What a file says about Kimi delta attention (Kimi Linear, arXiv 2510.26692)."""

from __future__ import annotations

from dataclasses import dataclass

from llamapy.loader.bounded import Keys, count


@dataclass(frozen=True, slots=True)
class Kda:
    """Elements of a head and taps of the convolutions. `lower_bound` below 0 bounds the log decay:
    lower_bound * sigmoid(..) instead of -exp(A) * softplus(..)."""

    n_head: int = 0
    n_embd_head: int = 0
    d_conv: int = 0
    lower_bound: float = 0.0

    @property
    def d_inner(self) -> int:
        return self.n_head * self.n_embd_head


def read_kda(file: Keys, arch: str, n_head: int) -> Kda:
    return Kda(
        n_head,
        count(file, f"{arch}.kda.head_dim", least=1),
        count(file, f"{arch}.ssm.conv_kernel", least=2),
        file.get_float(f"{arch}.kda.gate_lower_bound", 0.0),
    )
