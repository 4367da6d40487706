"""Of a model with an encoder: what its decoder has said, and, apart from that, the texts that were
encoded for it, which every token sees as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llamapy.base.errors import UsageError
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import GroupView, Ints, LayerCache, Loading, SavedReader, Step, Ubatch
from llamapy.kv.cells import pad
from llamapy.kv.unified import NO_RUNS, UnifiedCache, UnifiedStep

TEXT = 1  # the cell group of texts


class TextStep:
    """See kv.api.Step. A text being encoded."""

    def __init__(self, text: UnifiedStep) -> None:
        self._text = text
        n_lists, n_kv = text.sizes
        self.sizes: tuple[int, ...] = (n_lists, 0, n_kv)
        self.views: list[GroupView] = []
        self.runs = NO_RUNS

    def apply(self) -> None:
        self._text.apply()
        none: Ints = NO_RUNS[:, 0]
        self.views = [GroupView(none, NO_RUNS, NO_RUNS), *self._text.views]

    def revert(self) -> None:
        self._text.revert()


class CrossedStep:
    """See kv.api.Step. Tokens of the decoder."""

    def __init__(self, own: UnifiedStep, text: GroupView) -> None:
        self._own, self._text = own, text
        self.sizes: tuple[int, ...] = (*own.sizes, text.idx.shape[1])
        self.views: list[GroupView] = []
        self.runs = NO_RUNS

    def apply(self) -> None:
        self._own.apply()
        self.views = [*self._own.views, self._text]

    def revert(self) -> None:
        self._own.revert()


class CrossedCache:
    """See kv.api.Memory. Layers of texts are numbered after the `n_layer` of the decoder's own.
    Positions are those of the decoder; a sequence's text stays until all of the sequence is
    removed."""

    def __init__(self, own: UnifiedCache, text: UnifiedCache, n_layer: int) -> None:
        self.cut = own.cut
        self.own, self.text, self.n_layer = own, text, n_layer

    @property
    def n_bytes(self) -> int:
        return self.own.n_bytes + self.text.n_bytes

    def free(self) -> None:
        self.own.free()
        self.text.free()

    def layer(self, il: int) -> LayerCache:
        if il < self.n_layer:
            return self.own.layer(il)
        return self.text.layer(il - self.n_layer)._replace(group=TEXT)

    def state(self, il: int) -> Mapping[str, Tensor]:
        return {}

    def begin(self, ubatch: Ubatch) -> Step:
        if ubatch.encodes:
            return TextStep(self.text.begin(ubatch))
        lists = list(dict.fromkeys(seqs[0] for seqs in ubatch.seqs))
        for seq in lists:
            if self.text.pos_max(seq) < 0:
                raise UsageError(
                    f"sequence {seq} has no text to attend to: encode one, then decode from the "
                    "model's start token on"
                )
        n_kv = max(pad(self.text.pos_max(seq) + 1) for seq in lists)
        return CrossedStep(self.own.begin(ubatch), self.text.whole(ubatch, lists, n_kv))

    def worst_sizes(self, n_tokens: int, n_seqs: int) -> tuple[int, ...]:
        sizes = self.own.worst_sizes(n_tokens, n_seqs)
        return (*sizes, *self.text.worst_sizes(n_tokens, n_seqs)[1:])

    def pos_max(self, seq: int) -> int:
        return self.own.pos_max(seq)

    def twins(self, seq: int) -> set[int]:
        return self.own.twins(seq) & self.text.twins(seq)

    def clear(self) -> None:
        self.own.clear()
        self.text.clear()

    def seq_rm(self, seq: int, p0: int, p1: int) -> bool:
        done = self.own.seq_rm(seq, p0, p1)
        if p0 == 0 and p1 < 0:
            self.text.seq_rm(seq, 0, -1)
        return done

    def seq_cp(self, src: int, dst: int, p0: int, p1: int) -> None:
        """The text comes along, unless dst has the same one."""
        same = self.text.pos_max(dst) >= 0 and dst in self.text.twins(src)
        if not same and self.text.pos_max(dst) >= 0:
            raise UsageError(f"sequence {dst} has a text of its own: remove it before")
        self.own.seq_cp(src, dst, p0, p1)
        if not same:
            self.text.seq_cp(src, dst, 0, -1)

    def seq_keep(self, seq: int) -> None:
        self.own.seq_keep(seq)
        self.text.seq_keep(seq)

    def describe(self) -> dict[str, Any]:
        return {**self.own.describe(), "texts": self.text.describe()}

    def save(self, seq: int) -> Iterator[bytes]:
        yield from self.own.save(seq)
        yield from self.text.save(seq)

    def plan_load(self, seq: int, reader: SavedReader) -> Loading:
        own, text = self.own.plan_load(seq, reader), self.text.plan_load(seq, reader)

        def finish() -> None:
            own.finish()
            text.finish()

        return Loading(own.last, finish)
