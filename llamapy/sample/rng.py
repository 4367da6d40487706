"""Random numbers that are the same everywhere: SplitMix64 (Steele, Lea, Flood 2014).

Integer arithmetic only, so a seed gives one sequence on every platform and with every version of
anything. Each purpose has a stream of its own: the draw of a token uses exactly one number per
token.
"""

from __future__ import annotations

import os

from llamapy.sample.params import RANDOM_SEED

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_AHEAD = 32  # made together: between two tokens caches go cold, and one costs ten times as much


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


class Rng:
    """Stream number `stream` of `seed`."""

    def __init__(self, seed: int, stream: int = 0) -> None:
        self._state = _mix((seed + stream * _GAMMA) & _MASK)
        self._ahead: list[float] = []  # the next ones, last first

    def next(self) -> float:
        """A number in [0, 1), a multiple of 2^-53."""
        if not self._ahead:
            self._ahead = [self._make() for _ in range(_AHEAD)][::-1]
        return self._ahead.pop()

    def _make(self) -> float:
        self._state = (self._state + _GAMMA) & _MASK
        return (_mix(self._state) >> 11) * 2.0**-53


def actual_seed(seed: int) -> int:
    """`seed`, or one from the system (32 bits) where it is the mark for that."""
    return int.from_bytes(os.urandom(8), "little") % RANDOM_SEED if seed == RANDOM_SEED else seed
