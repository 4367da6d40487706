"""Attention and recurrent states in one memory; a layer has either, or both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llamapy.base.errors import FileError
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import GroupView, Ints, LayerCache, Loading, SavedReader, Ubatch
from llamapy.kv.recurrent import RecurrentCache, RecurrentStep
from llamapy.kv.unified import UnifiedCache, UnifiedStep


class HybridStep:
    """See kv.api.Step."""

    def __init__(self, attention: UnifiedStep, recurrent: RecurrentStep) -> None:
        self._attention, self._recurrent = attention, recurrent
        self.sizes: tuple[int, ...] = attention.sizes  # each run has a list of its own
        self.views: list[GroupView] = []
        self.runs: Ints = recurrent.runs

    def apply(self) -> None:
        self._attention.apply()
        self._recurrent.apply()
        self.views = self._attention.views

    def revert(self) -> None:
        self._attention.revert()
        self._recurrent.revert()


class HybridCache:
    """See kv.api.Memory. What either part refuses is refused, and then neither has changed."""

    def __init__(self, attention: UnifiedCache, recurrent: RecurrentCache) -> None:
        self.cut = recurrent.cut
        self.attention, self.recurrent = attention, recurrent

    @property
    def n_bytes(self) -> int:
        return self.attention.n_bytes + self.recurrent.n_bytes

    def free(self) -> None:
        self.attention.free()
        self.recurrent.free()

    def layer(self, il: int) -> LayerCache:
        return self.attention.layer(il)

    def state(self, il: int) -> Mapping[str, Tensor]:
        return self.recurrent.state(il)

    def begin(self, ubatch: Ubatch) -> HybridStep:
        return HybridStep(self.attention.begin(ubatch), self.recurrent.begin(ubatch))

    def worst_sizes(self, n_tokens: int, n_seqs: int) -> tuple[int, ...]:
        return self.attention.worst_sizes(n_tokens, n_seqs)

    def pos_max(self, seq: int) -> int:
        return self.recurrent.pos_max(seq)

    def twins(self, seq: int) -> set[int]:
        return self.attention.twins(seq) & self.recurrent.twins(seq)

    def clear(self) -> None:
        self.attention.clear()
        self.recurrent.clear()

    def seq_rm(self, seq: int, p0: int, p1: int) -> bool:
        return (
            self.recurrent.can_rm(seq, p0, p1)
            and self.attention.seq_rm(seq, p0, p1)
            and self.recurrent.seq_rm(seq, p0, p1)
        )

    def seq_cp(self, src: int, dst: int, p0: int, p1: int) -> None:
        if self.recurrent.check_cp(src, dst, p0, p1):
            self.attention.seq_cp(src, dst, p0, p1)
            self.recurrent.seq_cp(src, dst, p0, p1)

    def seq_keep(self, seq: int) -> None:
        self.attention.seq_keep(seq)
        self.recurrent.seq_keep(seq)

    def describe(self) -> dict[str, Any]:
        return {**self.attention.describe(), **self.recurrent.describe()}

    def save(self, seq: int) -> Iterator[bytes]:
        yield from self.attention.save(seq)
        yield from self.recurrent.save(seq)

    def plan_load(self, seq: int, reader: SavedReader) -> Loading:
        of_cells, of_states = (m.plan_load(seq, reader) for m in (self.attention, self.recurrent))
        if of_cells.last != of_states.last:
            raise FileError(
                f"saved sequence: its cells end at position {of_cells.last}, its states at "
                f"{of_states.last}"
            )

        def finish() -> None:
            of_cells.finish()
            of_states.finish()

        return Loading(of_states.last, finish)
