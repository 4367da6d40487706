"""What a file says about its state space models."""

from __future__ import annotations

from dataclasses import dataclass

from llamapy.loader.bounded import Keys, count, wrong


@dataclass(frozen=True, slots=True)
class Ssm:
    """A selective state space model: `d_inner` channels, each with `d_state` numbers of state,
    behind a convolution of `d_conv` taps. In Mamba-2 `dt_rank` is the number of heads, and B and C
    are the same for the heads of each of `n_group` groups; in Mamba it is what the step sizes of
    all channels are made from. `norms`: step sizes, B and C are normed without weights."""

    d_conv: int = 0
    d_inner: int = 0
    d_state: int = 0
    dt_rank: int = 0
    n_group: int = 0
    norms: bool = False

    @property
    def d_head(self) -> int:
        """Channels of a head (Mamba-2)."""
        return self.d_inner // self.dt_rank

    @property
    def n_mixed(self) -> int:
        """Channels that go through the convolution: x, B and C (Mamba-2)."""
        return self.d_inner + 2 * self.n_group * self.d_state


def read_ssm(file: Keys, arch: str, least_groups: int | None = None) -> Ssm:
    """`least_groups`: how many groups there are at least, None where there are not even heads."""
    pre = f"{arch}.ssm."
    n_group = count(file, f"{pre}group_count", None if least_groups else 0, least_groups or 0)
    ssm = Ssm(
        d_conv=count(file, f"{pre}conv_kernel", least=2),
        d_inner=count(file, f"{pre}inner_size", least=1),
        d_state=count(file, f"{pre}state_size", least=1),
        dt_rank=count(file, f"{pre}time_step_rank", least=1),
        n_group=n_group,
        norms=file.get_bool(f"{pre}dt_b_c_rms", False),
    )
    if n_group and ssm.dt_rank % n_group:
        raise wrong(file, f"{pre}group_count", f"a divisor of {ssm.dt_rank} heads", n_group)
    if least_groups is not None and ssm.d_inner % ssm.dt_rank:
        raise wrong(file, f"{pre}inner_size", f"a multiple of {ssm.dt_rank} heads", ssm.d_inner)
    return ssm
