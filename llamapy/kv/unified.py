"""The attention cache: one pool of cells for all sequences, a small second one for window layers.

K and V lie in one buffer per device, layer after layer, each `[n_embd_head, n_cells, n_head_kv]`:
the cells of a head follow each other, so that attention, which works head by head, reads a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from llamapy.base.errors import ContextError, FileError, MemoryBudgetError, UsageError
from llamapy.base.types import Type
from llamapy.graph.device import Device
from llamapy.graph.ops import view
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import CacheShape, GroupView, Ints, LayerCache, Loading, SavedReader, Ubatch
from llamapy.kv.cells import Cells, pad
from llamapy.kv.places import Places
from llamapy.kv.saved import read_cells, write_cells, write_positions

END = np.iinfo(np.int32).max
NO_RUNS: Ints = np.empty((0, 4), np.int32)


class UnifiedStep:
    """See kv.api.Step. Cells are chosen when it is made, taken by `apply`."""

    def __init__(
        self, groups: list[Cells], ubatch: Ubatch, lists: list[int], chosen: list[Ints], last: int
    ) -> None:
        self._groups = groups
        self._ubatch = ubatch
        self._lists = lists
        self._chosen = chosen
        self._n_kv = [g.list_length(last, ubatch.n_tokens) for g in groups]
        self.sizes: tuple[int, ...] = (len(lists), *self._n_kv)
        self.views: list[GroupView] = []
        self.runs = NO_RUNS

    def apply(self) -> None:
        for group, cells in zip(self._groups, self._chosen, strict=True):
            group.take(cells, self._ubatch)
        self.views = [
            group.view(cells, self._ubatch, self._lists, n_kv)
            for group, cells, n_kv in zip(self._groups, self._chosen, self._n_kv, strict=True)
        ]

    def revert(self) -> None:
        """The cells are free then: what window layers no longer needed and a run has begun to write
        over is not brought back."""
        for group, cells in zip(self._groups, self._chosen, strict=True):
            group.drop(cells)


class UnifiedCache:
    """See kv.api.Memory. `device_of(il)` says where layer il computes; its K and V live there."""

    def __init__(
        self,
        shape: CacheShape,
        device_of: Callable[[int], Device],
        *,
        n_ctx: int,
        n_seq_max: int,
        n_ubatch: int,
        type_k: Type,
        type_v: Type,
    ) -> None:
        self.n_seq_max = n_seq_max
        self.n_ctx = n_ctx
        self.causal = shape.causal
        self.cut = "anywhere" if shape.causal else "whole"
        n_cells = [pad(n_ctx)]
        if any(shape.is_swa):
            n = shape.n_swa * n_seq_max + n_ubatch if shape.causal else n_ctx
            n_cells.append(pad(min(n_ctx, n)))
        self._shape = shape
        self._layers = {
            il: _layer(shape, il, n_cells, type_k, type_v)
            for il in range(len(shape.n_head_kv))
            if shape.owns(il)
        }
        # Before the books, so that a size beyond all bounds ends here.
        self._places = Places(
            (device_of(il), t)
            for il, layer in self._layers.items()
            for t in (layer.k, layer.v)
            if t.view_src is None
        )
        try:
            self._groups = [
                Cells(n, n_seq_max, shape.n_swa if group else 0, window=shape.window,
                      causal=shape.causal)
                for group, n in enumerate(n_cells)
            ]  # fmt: skip
        except MemoryError as e:
            self.free()
            raise MemoryBudgetError(f"no memory for the books of {n_ctx} cells: {e}") from e
        except BaseException:
            self.free()
            raise

    @property
    def n_bytes(self) -> int:
        return self._places.n_bytes

    def free(self) -> None:
        self._places.free()

    def layer(self, il: int) -> LayerCache:
        return self._layers[self._shape.share[il]]

    def state(self, il: int) -> Mapping[str, Tensor]:
        return {}

    def begin(self, ubatch: Ubatch) -> UnifiedStep:
        lists = list(dict.fromkeys(seqs[0] for seqs in ubatch.seqs))
        if not self.causal:
            self._check_new(lists)
        places = ubatch.pos.tolist()
        forgets = any(group.forgets for group in self._groups)
        next_pos = self._next_pos(places, ubatch.seqs) if forgets else []
        chosen = []
        for group in self._groups:
            cells = group.choose(ubatch.n_tokens, next_pos)
            if cells is None:
                raise ContextError(
                    f"no room for {ubatch.n_tokens} more tokens in a context of {self.n_ctx}; "
                    "use a larger --ctx-size"
                )
            chosen.append(cells)
        return UnifiedStep(self._groups, ubatch, lists, chosen, max(places))

    def _next_pos(self, places: list[int], seqs_of: Sequence[tuple[int, ...]]) -> list[int]:
        """See Cells.choose: of a ubatch's tokens, at `places` of their sequences."""
        next_pos = [self.pos_max(s) + 1 for s in range(self.n_seq_max)]
        for pos, seqs in zip(places, seqs_of, strict=True):
            for seq in seqs:
                next_pos[seq] = min(next_pos[seq], pos)
        return next_pos

    def _check_new(self, seqs: list[int]) -> None:
        """A token that comes later would have to be seen by those that have been computed."""
        for seq in seqs:
            if self.pos_max(seq) >= 0:
                raise UsageError(
                    f"sequence {seq} has tokens already, and this model sees all of a sequence at "
                    "once: remove it, then give all its tokens in one batch"
                )

    def whole(self, ubatch: Ubatch, lists: list[int], n_kv: int) -> GroupView:
        """As other tokens of these sequences see the sequences that are here: see Cells.whole."""
        return self._groups[0].whole(ubatch, lists, n_kv)

    def worst_sizes(self, n_tokens: int, n_seqs: int) -> tuple[int, ...]:
        last = self._groups[0].n_cells - 1
        return (n_seqs, *(g.list_length(last, n_tokens) for g in self._groups))

    def pos_max(self, seq: int) -> int:
        return self._groups[0].pos_max(seq)

    def twins(self, seq: int) -> set[int]:
        return self._groups[0].twins(seq)

    def clear(self) -> None:
        for group in self._groups:
            group.clear()

    def seq_rm(self, seq: int, p0: int, p1: int) -> bool:
        """Window layers forget: refused when the next query would miss cells that are gone."""
        p1 = p1 if p1 >= 0 else END
        held = self._groups[0].held(seq)
        left = held[(held < p0) | (held >= p1)]
        if self._forgot(left, seq):
            return False
        for group in self._groups:
            group.rm(seq, p0, p1)
        return True

    def seq_cp(self, src: int, dst: int, p0: int, p1: int) -> None:
        if src == dst:
            return
        p1 = p1 if p1 >= 0 else END
        own, held = self._groups[0].held(dst), self._groups[0].held(src)
        new = held[(held >= p0) & (held < p1)]
        if (both := np.intersect1d(own, new)).size:
            raise UsageError(
                f"sequence {dst} has a position {both[0]} of its own: remove it before it is "
                f"copied from sequence {src}"
            )
        if self._forgot(np.concatenate([own, new]), src, dst):
            raise UsageError(
                f"sequence {src} cannot be copied up to position {int(new.max()) + 1}: its window "
                f"layers have forgotten what is before that; copy all of it, or compute it anew"
            )
        for group in self._groups:
            group.cp(src, dst, p0, p1)

    def _forgot(self, pos: Ints, *seqs: int) -> bool:
        """Whether a window group has lost cells of `pos`, held by `seqs`, that the query after the
        last of them sees. Cells are taken again in any order, so each position counts."""
        after = int(pos.max(initial=-1)) + 1
        for group in self._groups:
            if group.forgets:
                seen = pos[pos >= group.first_visible(after)]
                if not np.isin(seen, np.concatenate([group.held(s) for s in seqs])).all():
                    return True
        return False

    def seq_keep(self, seq: int) -> None:
        for group in self._groups:
            group.keep(seq)

    def describe(self) -> dict[str, Any]:
        types = {f"{il}": [a.k.type.name, a.v.type.name] for il, a in self._layers.items()}
        return {**asdict(self._shape), "types": types}

    def _tensors(self, group: int) -> list[Tensor]:
        """K and V with memory of their own, layer by layer."""
        layers = [layer for layer in self._layers.values() if layer.group == group]
        return [t for layer in layers for t in (layer.k, layer.v) if t.view_src is None]

    def save(self, seq: int) -> Iterator[bytes]:
        for i, group in enumerate(self._groups):
            cells, pos = group.in_order(seq)
            yield write_positions(pos)
            for t in self._tensors(i):
                yield read_cells(t, cells)

    def plan_load(self, seq: int, reader: SavedReader) -> Loading:
        parts = [self._read_group(i, reader) for i in range(len(self._groups))]
        pos = parts[0][0]
        last = int(pos.max(initial=-1))
        next_pos = [self.pos_max(s) + 1 for s in range(self.n_seq_max)]
        next_pos[seq] = last + 1
        todo = []
        for group, (kept, rows) in zip(self._groups, parts, strict=True):
            if not np.isin(kept, pos).all():
                raise FileError("saved sequence: its window layers hold positions of no token")
            todo.append((group, *self._room_for(group, kept, pos, next_pos), rows))

        def finish() -> None:
            for group, cells, kept, rows in todo:
                if len(cells):
                    for t, raw in rows:
                        write_cells(t, cells, raw)
                    group.take(cells, _as_ubatch(kept, seq))

        return Loading(last, finish)

    def _room_for(
        self, group: Cells, kept: Ints, pos: Ints, next_pos: list[int]
    ) -> tuple[Ints, Ints]:
        """Cells for the positions `kept` of a sequence with positions `pos`, and which of them
        these are: where there is little room, the last ones, if the next token sees no more."""
        after = int(pos.max(initial=-1)) + 1
        seen = pos[pos >= group.first_visible(after)]
        if not np.isin(seen, kept).all():
            raise FileError("saved sequence: its window layers lack what the next token sees")
        if group.forgets:
            kept = kept[max(len(kept) - group.n_free(next_pos), 0) :]
        cells = group.choose(len(kept), next_pos)
        if cells is None or not np.isin(seen, kept).all():
            raise ContextError(
                f"no room for {len(pos)} saved tokens in a context of {self.n_ctx}; "
                "use a larger --ctx-size"
            )
        return cells, kept

    def _read_group(
        self, group: int, reader: SavedReader
    ) -> tuple[Ints, list[tuple[Tensor, memoryview]]]:
        pos = reader.positions("positions")
        n = [(t, len(pos) * t.nb[1] * t.ne[2]) for t in self._tensors(group)]
        return pos, [(t, reader.take(n_bytes, t.name)) for t, n_bytes in n]


def _as_ubatch(pos: Ints, seq: int) -> Ubatch:
    return Ubatch(pos, pos, ((seq,),) * len(pos), NO_RUNS[0:0, 0], NO_RUNS[0:0, 0])


def _layer(
    shape: CacheShape, il: int, n_cells: list[int], type_k: Type, type_v: Type
) -> LayerCache:
    group = 1 if shape.is_swa[il] else 0
    n, n_head, n_v = n_cells[group], shape.n_head_kv[il], shape.n_embd_head_v[il]
    k = Tensor(type_k, (shape.n_embd_head_k[il], n, n_head, 1), name=f"cache_k-{il}")
    if shape.v_is_k[il]:
        v = view(k, (n_v, n, n_head), k.nb[1:])
        v.name = f"cache_v-{il}"
    else:
        v = Tensor(type_v, (n_v, n, n_head, 1), name=f"cache_v-{il}")
    return LayerCache(k, v, group)
