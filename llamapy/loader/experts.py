"""What a file says about its experts."""

from __future__ import annotations

from dataclasses import dataclass

from llamapy.loader.bounded import Keys, count, counts, wrong

GATING = ("", "softmax", "sigmoid", "softmax_selected", "sqrt_softplus")  # by the key's number


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts. `n` experts, `n_used` of them per token, each `n_ff` wide;
    `n_ff_shared` is the width of what all tokens go through (0: nothing). Layers before `first`
    are dense, of each `step` others the one at `phase` has experts. `n_group` groups of which
    `n_group_used` may be chosen from (1: no groups). `used_by_layer` and `ff_by_layer` where layers
    differ; `n_used` and `n_ff` then are the most. `clamp` and `clamp_shared`: by layer, what
    bounds swiglu, 0: nothing."""

    n: int = 0
    n_used: int = 0
    n_ff: int = 0
    n_ff_shared: int = 0
    gating: str = "softmax"
    normalise: bool = True
    scale: float = 1.0
    first: int = 0
    step: int = 1
    phase: int = -1
    n_group: int = 1
    n_group_used: int = 1
    n_embd: int = 0  # of the space the experts work in, 0: the model's
    n_ff_chunk: int = 0  # grovemoe's smaller experts
    chunk_scale: float = 1.0
    clamp: tuple[float, ...] = ()
    clamp_shared: tuple[float, ...] = ()
    used_by_layer: tuple[int, ...] = ()
    ff_by_layer: tuple[int, ...] = ()

    def has(self, il: int) -> bool:
        """Whether layer `il` chooses among experts."""
        its_turn = il >= self.first and il % self.step == self.phase % self.step
        return self.n > 0 and its_turn and self.used(il) > 0

    def used(self, il: int) -> int:
        return self.used_by_layer[il] if self.used_by_layer else self.n_used

    def ff(self, il: int) -> int:
        return self.ff_by_layer[il] if self.ff_by_layer else self.n_ff


def read_experts(
    file: Keys,
    arch: str,
    n_ff: int,
    *,
    gating: str = "softmax",
    normalise: bool = True,
    first: int | None = 0,
    step: int = 1,
    shared: bool = False,
) -> Experts:
    """What the file says, else what the architecture's converters left out as known. `n_ff` is the
    width of experts without a key for theirs. `first` None: read leading_dense_block_count.
    `shared`: there are shared experts, their width a key or a routed one's times their number."""
    pre = f"{arch}."
    n = count(file, f"{pre}expert_count", 0)
    if not n:
        return Experts()
    used_by_layer = _by_layer(file, f"{pre}expert_used_count")
    ff_by_layer = _by_layer(file, f"{pre}expert_feed_forward_length")
    n_used = max(used_by_layer, default=0) or count(file, f"{pre}expert_used_count", least=1)
    if n_used > n:
        raise wrong(file, f"{pre}expert_used_count", f"at most {n}", n_used)
    n_ff = max(ff_by_layer, default=0) or count(file, f"{pre}expert_feed_forward_length", 0) or n_ff
    n_ff_shared = 0
    if shared:
        n_shared = count(file, f"{pre}expert_shared_count", 1)
        n_ff_shared = count(file, f"{pre}expert_shared_feed_forward_length", n_ff * n_shared)
    n_group, n_group_used = _groups(file, pre, n, n_used)
    return Experts(
        n,
        n_used,
        n_ff,
        n_ff_shared,
        _gating(file, f"{pre}expert_gating_func", gating),
        file.get_bool(f"{pre}expert_weights_norm", normalise),
        file.get_float(f"{pre}expert_weights_scale", 0.0) or 1.0,
        count(file, f"{pre}leading_dense_block_count", 0) if first is None else first,
        step,
        n_group,
        n_group_used,
        clamp=_limits(file, f"{pre}swiglu_clamp_exp"),
        clamp_shared=_limits(file, f"{pre}swiglu_clamp_shexp"),
        used_by_layer=used_by_layer,
        ff_by_layer=ff_by_layer,
    )


def _by_layer(file: Keys, key: str) -> tuple[int, ...]:
    """A number of each layer; nothing where the key has one for all."""
    if key not in file.keys or isinstance(file.keys[key], int | float):
        return ()
    return counts(file, key, file.get_int(f"{key.split('.')[0]}.block_count"))


def _limits(file: Keys, key: str) -> tuple[float, ...]:
    """One per layer, or nothing."""
    if key not in file.keys:
        return ()
    n_layer = file.get_int(f"{key.split('.')[0]}.block_count")
    return tuple(float(x) for x in file.per_layer(key, n_layer))


def _gating(file: Keys, key: str, default: str) -> str:
    number = count(file, key, 0)
    if number >= len(GATING):
        raise wrong(file, key, f"a number from 1 to {len(GATING) - 1}", number)
    return GATING[number] or default


def _groups(file: Keys, pre: str, n: int, n_used: int) -> tuple[int, int]:
    key = f"{pre}expert_group_count"
    n_group = count(file, key, 1) or 1
    n_group_used = count(file, f"{pre}expert_group_used_count", 1) or 1
    if n % n_group or n_group_used > n_group or n_used > n // n_group * n_group_used:
        raise wrong(file, key, f"groups of {n} experts of which {n_used} can be used", n_group)
    return n_group, n_group_used
