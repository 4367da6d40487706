"""A context: memory, compute buffers and threads of one conversation with a model.

`process_ubatch` is the loop all of it exists for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from llamapy.base.closing import Closing
from llamapy.base.errors import UsageError
from llamapy.devices.cpu.device import CpuProgram
from llamapy.ffi.lib import isa_report
from llamapy.graph import dump
from llamapy.graph.cgraph import CGraph
from llamapy.graph.compiled import Compiled
from llamapy.graph.device import Device
from llamapy.graph.fuse import RULES, fuse
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import Tensor
from llamapy.kv import saved
from llamapy.kv.api import Floats, Ints, Ubatch
from llamapy.models.builder import EMBEDDINGS, HIGHEST, LOGITS, Builder, GraphShape
from llamapy.models.inputs import fill
from llamapy.runtime.batch import Batch, single, split, whole
from llamapy.runtime.checks import check
from llamapy.runtime.embed import embed
from llamapy.runtime.encode import text_batch
from llamapy.runtime.kept import N_KEPT, N_KEPT_ROUNDED, Built, Kept, read_rows
from llamapy.runtime.key import Counters, GraphKey, rounded, unit_of
from llamapy.runtime.memory import open_memory
from llamapy.runtime.params import ContextParams, Parts
from llamapy.runtime.worst import Worst

__all__ = ["Context", "ContextParams", "Parts"]


class Context(Closing):
    """One memory of `n_seq_max` sequences. For one thread at a time, but for `abort`."""

    def __init__(self, parts: Parts, params: ContextParams) -> None:
        self.arch = parts.arch
        self.hp = parts.hp
        self.params = params
        self.counters = Counters()
        self._weights = parts.weights
        self._cpu = parts.cpu(max(params.n_threads, params.n_threads_batch))
        self._room = parts.room
        by_name: dict[str, Device] = {d.name: d for d in (*parts.devices, self._cpu)}
        shape = parts.arch.cache(parts.hp)
        self.memory = open_memory(
            shape,
            parts.arch.states(parts.hp),
            lambda il: by_name[parts.layer_device[il]],
            n_ctx=params.n_ctx,
            n_seq_max=params.n_seq_max,
            n_ubatch=min(params.n_ubatch, params.n_ctx),
            type_k=params.type_k,
            type_v=params.type_v,
        )
        self._sched = Scheduler([*parts.devices, self._cpu])
        # Padding would be tokens of a state, or of a text.
        rounds = params.rounded and self.memory.cut == "anywhere" and not parts.hp.stacks.n_dec
        self._unit = unit_of(parts.hp.n_layer, parts.weights) if rounds else 0
        self._worst = Worst(
            params,
            self.memory,
            {n for n in shape.n_head_kv if n},
            self._unit,
            self.ends,
            encodes=bool(parts.hp.stacks.n_dec),
        )
        self._n_ubatch = self._worst.n_ubatch
        self._kept = Kept(N_KEPT_ROUNDED if rounds else N_KEPT)
        self._closed = False
        self._n_outputs = 0
        try:
            self.reserve(rounded(params.n_seq_max, self._unit))
            self._pool = self._cpu.pool  # now, so that `abort` finds it at any time
        except BaseException:
            self.close()
            raise

    # What a caller asks for.

    @property
    def n_ctx(self) -> int:
        return self.params.n_ctx

    @property
    def n_longest(self) -> int:
        """The most tokens of a sequence."""
        return self.params.n_longest or self.params.n_ctx

    def n_past(self, seq_id: int = 0) -> int:
        """Tokens of a sequence so far: the position that its next token takes."""
        self._check_sequences(seq_id)
        return self.memory.pos_max(seq_id) + 1

    def decode(
        self,
        tokens: Sequence[int] | Ints,
        *,
        seq_id: int = 0,
        pos: int | None = None,
        logits: str = "last",
        copy: bool = True,
    ) -> Floats:
        """Append tokens to a sequence. Returns float32 [n_outputs, n_vocab]: of the last token, of
        'all', or of 'none'; without `copy` it may be a view that the next step overwrites. Raises
        ContextError when they do not fit; what was computed before stays."""
        first = self.n_past(seq_id) if pos is None else pos
        return self._compute(single(tokens, first, seq_id, logits), LOGITS, copy)

    def decode_batch(self, batch: Batch) -> Floats:
        """Append tokens of several sequences. [n_outputs, n_vocab], in the order of the tokens.
        UsageError for a model that gives embeddings and no logits."""
        return self._compute(batch, LOGITS)

    def embed_batch(self, batch: Batch) -> Floats:
        """Append tokens of several sequences. What the wanted ones are after the last norm, where
        the output matrix would read it: [n_outputs, n_embd], in their order."""
        return self._compute(batch, EMBEDDINGS)

    def embed(self, tokens: Sequence[int] | Ints, *, pooling: str | None = None) -> Floats:
        """The embedding of one text, by itself: see runtime.embed.embed."""
        return next(embed(self, [tokens], pooling))

    def parts(self, batch: Batch, ends: str = LOGITS) -> Iterator[tuple[Ints, Any]]:
        """As decode_batch, ubatch by ubatch: places in the result and rows, a view that the next
        ubatch overwrites. `ends`: see process_ubatch."""
        for ubatch in self._ubatches(batch, ends):
            yield ubatch.order, self.process_ubatch(ubatch, ends=ends)

    def _compute(self, batch: Batch, ends: str, copy: bool = True) -> Floats:
        ubatches = self._ubatches(batch, ends)
        if isinstance(ubatches, tuple):
            rows: Floats = self.process_ubatch(ubatches[0], ends=ends)
            return rows.copy() if copy else rows
        out = np.empty((batch.n_outputs, self._width(ends)), np.float32)
        for ubatch in ubatches:
            out[ubatch.order] = self.process_ubatch(ubatch, ends=ends)
        return out

    def _ubatches(self, batch: Batch, ends: str) -> Iterable[Ubatch]:
        """What is computed one after the other; a tuple where it is one."""
        self._check_open()
        if ends != EMBEDDINGS == self.arch.gives:
            raise UsageError(
                f"{self.arch.name} gives embeddings of texts, not logits: see llamapy embed"
            )
        places = self._weights.get("position_embd.weight")
        check(batch, self, self.memory.twins, 0 if places is None else places.ne[1])
        n_outputs = min(rounded(batch.n_outputs, self._unit), self._n_ubatch)  # of one graph
        if n_outputs > self._n_outputs:
            self.reserve(n_outputs)
        if batch.n_tokens <= self._n_ubatch and self.memory.cut == "anywhere" and not batch.encodes:
            return (whole(batch),)
        return split(batch, self._n_ubatch, "whole" if batch.encodes else self.memory.cut)

    def encode(self, tokens: Sequence[int] | Ints, *, seq_id: int = 0) -> None:
        """Have the encoder read a text for a sequence: see runtime.encode.text_batch."""
        self.decode_batch(text_batch(self.hp, tokens, seq_id, self.n_past(seq_id)))

    def weights_changed(self) -> None:
        """The next step builds its graph anew."""
        self._kept.clear()

    def process_ubatch(
        self,
        ubatch: Ubatch,
        run: Callable[[Compiled], None] | None = None,
        ends: str = LOGITS,
    ) -> Any:
        """One ubatch through the graph: [n_outputs, n_vocab or n_embd], a view of the output buffer
        that the next ubatch overwrites. A failed run leaves the memory's books as they were. `run`
        computes the graph once its inputs are filled; another one may watch it do so. Where `ends`
        is HIGHEST, i32 [n_outputs]: where in each row of logits the highest is but for
        `params.never`, of equal ones the first; -1: one is NaN or +inf, or none above -inf."""
        step = self.memory.begin(ubatch)
        try:
            step.apply()  # the one line that edits the cache's books
            key = GraphKey.of(ubatch, step, ends)
            if self._unit:
                key = key.rounded(self._unit, self._n_ubatch, self.params.n_seq_max)
            built = self._kept.get(key)
            if built is not None:
                self.counters.reused += 1
            else:
                built = self._build(key)
                self.counters.built += 1
            for place in built.inputs:
                fill(place, ubatch, step)
            start = time.perf_counter()
            (run or Compiled.run)(built.compiled)
            self.counters.seconds += time.perf_counter() - start
        except BaseException:
            step.revert()
            raise
        return built.result[: ubatch.n_outputs]

    def _build(self, key: GraphKey) -> Built:
        self._cpu.n_threads = self._threads_for(key)
        g = self._graph(key)
        compiled = self._sched.compile(self._fuse(g.cgraph))
        inputs = [place for slot in g.inputs if (place := slot.place())]
        rows = np.empty((0, self._width(key.ends)), np.float32)
        if g.result is not None and key.n_outputs:
            rows = read_rows(g.result)
        built = Built(key, inputs, rows, compiled)
        self._kept.put(built)
        return built

    def _graph(self, key: GraphKey) -> Builder:
        g = self.builder(key.shape())
        self.arch.build(g)
        return g

    def _fuse(self, graph: CGraph) -> CGraph:
        return fuse(graph, off=() if self.params.fusion else RULES)

    def _width(self, ends: str) -> int:
        return self.hp.n_embd if ends == EMBEDDINGS else self.hp.n_vocab

    def run_alone(self, g: Builder, given: Mapping[Tensor, Floats]) -> Floats:
        """A graph that has nothing to do with the memory, with its inputs: [rows, n]."""
        self._check_open()
        assert g.result is not None
        compiled = self._sched.compile(self._fuse(g.cgraph))
        for tensor, values in given.items():
            buffer, offset = tensor.home()
            assert buffer is not None
            buffer.write(offset, values)
        compiled.run()
        rows: Floats = read_rows(g.result)
        return rows.copy()

    def builder(self, shape: GraphShape) -> Builder:
        """What graphs are made with."""
        n_ctx = self.params.n_ctx_seq or self.params.n_ctx
        args = self.hp, self._weights, self.memory, shape, n_ctx
        return Builder(*args, never=self.params.never or ())

    # Sizes and checks.

    @property
    def ends(self) -> str:
        """What its graphs are reserved to end in, and those of `parts` best do."""
        return self.arch.gives if self.params.never is None else HIGHEST

    def _threads_for(self, key: GraphKey) -> int:
        """Generation and prompts may use different numbers of threads."""
        one_each = key.n_tokens <= key.sizes[0]
        return self.params.n_threads if one_each else self.params.n_threads_batch

    def reserve(self, n_outputs: int) -> None:
        """Open the compute buffers for the largest prompt graph and the largest decode graph, so
        that nothing is opened later. Grows with the outputs asked for."""
        for key in self._worst.keys(n_outputs):
            if self.params.n_longest:  # steps may be just like these
                self._build(key)
                self.counters.built += 1
                continue
            self._cpu.n_threads = self._threads_for(key)
            self._sched.reserve(self._fuse(self._graph(key).cgraph))
        self._room(self, n_outputs)
        self._n_outputs = n_outputs

    def output_bytes(self, n_outputs: int) -> int:
        """Of the rows that a graph's results are handed out in."""
        return n_outputs * self._width(self.arch.gives) * 4

    def scratch_bytes(self, n_outputs: int) -> int:
        """What the CPU's threads take besides, in the worst graphs."""
        found = [0]
        for key in self._worst.keys(n_outputs):
            programs = self._build(key).compiled.programs[0]
            found += [p.scratch_bytes for p in programs if isinstance(p, CpuProgram)]
        return max(found)

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the context is closed")

    def _check_sequences(self, *seq_ids: int, p0: int = 0) -> None:
        if p0 < 0:
            raise UsageError(f"a first position must be at least 0, got {p0}")
        for seq in seq_ids:
            if not 0 <= seq < self.params.n_seq_max:
                raise UsageError(f"sequence {seq} is outside 0..{self.params.n_seq_max - 1}")

    # What debugging and reports ask for.

    @property
    def n_threads(self) -> int:
        return self.params.n_threads

    @property
    def isa(self) -> str:
        """The best instruction set allowed, as kernels.def names it."""
        return next(line.isa for line in isa_report() if line.state == "chosen")

    def buffer_bytes(self) -> dict[str, int]:
        """Bytes opened: compute buffers by device, and the cache."""
        return {**self._sched.buffer_bytes(), "kv": self.memory.n_bytes}

    @property
    def graph_bytes(self) -> int:
        """What the graphs take that are kept ready; an estimate."""
        return self._kept.n_bytes

    def dump_graph(self, kind: str = "decode", format: str = "text") -> str:
        """The planned worst-case graph, `kind` 'decode' or 'prompt', as 'text', 'dot' or 'json'."""
        self._check_open()
        sizes = {"decode": self._worst.n_decode, "prompt": self._n_ubatch}
        if kind not in sizes or format not in ("text", "dot", "json"):
            raise UsageError(f"no graph of kind {kind!r} and format {format!r}")
        n_tokens = sizes[kind]
        compiled = self._build(self._worst.key(n_tokens, min(self._n_outputs, n_tokens))).compiled
        if format == "json":
            return json.dumps(dump.as_dict(compiled))
        return dump.dot(compiled) if format == "dot" else dump.text(compiled)

    def abort(self) -> None:
        """End the run that is on, or the next one, with Aborted. Safe from any thread."""
        self._pool.abort()

    def interruptible(self) -> Any:
        """While inside, Ctrl-C ends a run at once: see ffi.pool.Pool.interruptible."""
        self._check_open()
        return self._pool.interruptible()

    def seq_rm(self, seq_id: int, p0: int, p1: int = -1) -> bool:
        """Drop positions [p0, p1) of a sequence (-1: to its end). False when the memory cannot."""
        self._check_sequences(seq_id, p0=p0)
        return self.memory.seq_rm(seq_id, p0, p1)

    def seq_cp(self, src: int, dst: int, p0: int = 0, p1: int = -1) -> None:
        """Let sequence dst share the cells of src's positions [p0, p1). UsageError when dst has
        some already, windows forgot what its next token would see, or states are cut."""
        self._check_sequences(src, dst, p0=p0)
        self.memory.seq_cp(src, dst, p0, p1)

    def seq_keep(self, seq_id: int) -> None:
        """Forget all sequences but one."""
        self._check_sequences(seq_id)
        self.memory.seq_keep(seq_id)

    def clear(self) -> None:
        """Forget all sequences."""
        self.memory.clear()

    def state_save(self, seq_id: int = 0) -> bytes:
        """A sequence as bytes; `state_load` into a context of the same model and cache types, of
        whatever sizes, continues with the same bits."""
        self._check_open()
        self._check_sequences(seq_id)
        return saved.save(self.memory, seq_id, self._about())

    def state_load(self, data: bytes | bytearray | memoryview, seq_id: int = 0) -> None:
        """Fill an empty sequence with a saved one. FileError for what is no saved sequence or a
        damaged one, UsageError for one of another model or cache type, ContextError when it does
        not fit; nothing has changed then."""
        self._check_open()
        self._check_sequences(seq_id)
        saved.load(self.memory, seq_id, data, self._about(), self.n_ctx)

    def _about(self) -> dict[str, str | int]:
        hp = self.hp
        return {"architecture": hp.arch, "n_embd": hp.n_embd, "n_vocab": hp.n_vocab}

    def close(self) -> None:
        """Free threads and buffers. Twice is fine."""
        self._closed = True
        self._kept.clear()
        self._cpu.close()  # first: a run that is on ends before its memory goes
        self._sched.free()
        self.memory.free()
