"""The engine wires the parts: file, architecture, placement, weights. Contexts are made from it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Self

from llamapy.base.closing import Closing
from llamapy.base.errors import MemoryBudgetError, UsageError
from llamapy.base.log import log
from llamapy.base.memory import available_bytes
from llamapy.base.threads import default_threads
from llamapy.devices.cpu import CpuDevice
from llamapy.devices.cpu.prepare import PAIR_COLUMNS
from llamapy.graph.device import Device
from llamapy.graph.tensor import Tensor
from llamapy.loader.place_flags import PlaceFlags
from llamapy.loader.repack import (
    TIED,
    WORTH_STEPS,
    Repacked,
    asked_for,
    give_back,
    repack,
    replaceable,
)
from llamapy.loader.splits import ModelFiles, open_model
from llamapy.loader.weights import Weights, load_weights
from llamapy.runtime import room
from llamapy.runtime.context import Context, ContextParams, Parts
from llamapy.runtime.layout import Layout, lay_out
from llamapy.runtime.lengths import may_measure, measure
from llamapy.tokenize import Tokenizer
from llamapy.tokenize import load as load_tokenizer

LOADING, REPACKING = "loading", "repacking"
Progress = Callable[[str, int, int], None]  # of which of these: bytes done, of how many


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


class Engine(Closing):
    """An opened model. `gguf` is the file (or the shards as one), `hparams` its shape, `placement`
    where its weights lie, `warnings` what the user should know. Close it after its contexts."""

    def __init__(
        self,
        files: ModelFiles,
        laid: Layout,
        weights: Weights,
        devices: Sequence[Device],
    ) -> None:
        self.gguf = files
        self.arch, self.hparams, self.placement = laid.arch, laid.hparams, laid.placement
        self.weights = weights
        self.devices = list(devices)
        self.warnings: list[str] = [*laid.notes, *weights.notes]
        self.repacked = Repacked("off")
        self._matched = laid.matched
        self._overcommit = False
        self._n_threads: int | None = None
        self._locked = False
        self._pre: str | None = None
        self._lenient = False
        self._contexts: weakref.WeakSet[Context] = weakref.WeakSet()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        n_gpu_layers: int = 0,
        load_mode: str = "mmap",
        override_tensor: Sequence[tuple[str, str]] = (),
        devices: Sequence[Device] | None = None,
        place_flags: PlaceFlags | None = None,
        pre: str | None = None,
        lenient: bool = False,
        repack: str | None = None,
        n_threads: int | None = None,
        overcommit: bool = False,
        progress: Progress = silent,
    ) -> Self:
        """Open a GGUF (any shard of a split one, or a folder with one model) and map or copy its
        weights. `devices` are those besides the CPU, best first. Raises FileError for what is
        wrong with the file (`lenient` lets an unknown pre-tokenizer and unknown tensors pass, with
        a warning), UsageError for a flag that names what is not there. `repack`: see
        loader/repack.py, None: as LLAMAPY_REPACK says; `n_threads` do it, now if it is 'on', when
        `will_generate` says that it pays if 'auto'. `overcommit`: go on where memory is short (see
        runtime/room.py) instead of raising MemoryBudgetError."""
        flags = place_flags or PlaceFlags(
            n_gpu_layers=n_gpu_layers, overrides=tuple(override_tensor)
        )
        others = list(devices or ())
        files = open_model(path)
        out = cls.of_files(
            files,
            flags,
            others,
            load_mode,
            progress,
            repack,
            n_threads,
            lenient=lenient,
            overcommit=overcommit,
        )
        out._pre = pre
        return out

    @classmethod
    def of_files(
        cls,
        files: ModelFiles,
        flags: PlaceFlags,
        others: Sequence[Device] = (),
        load_mode: str = "mmap",
        progress: Progress = silent,
        repack: str | None = None,
        n_threads: int | None = None,
        *,
        lenient: bool = False,
        overcommit: bool = False,
    ) -> Self:
        """As `open`, of files that are open already and now belong to the engine."""
        try:
            asked = Repacked(asked_for(repack))
            laid = lay_out(files, flags, others, load_mode, lenient=lenient)
            if not overcommit:
                room.check_copies(files, laid, load_mode)
            weights = load_weights(
                files,
                laid.matched,
                laid.placement,
                [*others, CpuDevice()],
                mode=load_mode,
                progress=partial(progress, LOADING),
                apart=() if asked.asked == "off" else replaceable(laid.matched),
            )
            out = cls(files, laid, weights, others)
            out._overcommit = overcommit
            out.repacked = asked
            out._n_threads, out._lenient = n_threads, lenient
            out._locked = load_mode.endswith("+mlock")
            if asked.asked == "on":
                out._repack(progress=progress)
        except BaseException:
            files.close()
            raise
        for text in out.warnings:
            log.warn("W01", text)
        return out

    def will_generate(
        self,
        n_tokens: int,
        interrupted: Callable[[], bool] = lambda: False,
        progress: Progress = silent,
        n_highest: int = 0,
    ) -> None:
        """So many tokens are going to be generated, one after another. Contexts may read other
        forms of the weights from their next step on; results are the same. Making these stops,
        without effect, once `interrupted` is true. `n_highest`: sequences decoded together of which
        only the highest logits are asked."""
        worth = n_tokens >= WORTH_STEPS
        if worth and n_highest > PAIR_COLUMNS // 2:
            self._measure()
        if self.repacked.asked == "auto" and not self.repacked.tried and worth:
            self._repack(interrupted, progress)

    def _measure(self) -> None:
        """The output matrix's rows: see runtime/lengths.py."""
        output, tied = TIED
        w = self.weights.tensors.get(output, self.weights.tensors.get(tied))
        if w is not None and w.lengths is None and may_measure(w):
            device = CpuDevice(self._n_threads or default_threads().n)
            try:
                measure(w, device)
            finally:
                device.close()
            assert w.lengths is not None
            self.weights.buffers.append(w.lengths[0].buffer)
            for context in list(self._contexts):
                context.weights_changed()

    def _repack(
        self, interrupted: Callable[[], bool] = lambda: False, progress: Progress = silent
    ) -> None:
        device = CpuDevice(self._n_threads or default_threads().n)
        try:
            self.repacked = repack(
                self.weights,
                self._matched,
                device,
                self.repacked.asked,
                interrupted,
                partial(progress, REPACKING),
                locked=self._locked,
                promised=sum(sum(c.buffer_bytes().values()) for c in self._contexts),
                overcommit=self._overcommit,
            )
        finally:
            device.close()
        if self.repacked.n_tensors:
            give_back(self.weights, self._matched, self.gguf)
            for context in list(self._contexts):
                context.weights_changed()

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Made when first asked for: a run on ids needs none."""
        return load_tokenizer(self.gguf, pre=self._pre, lenient=self._lenient)

    def context(
        self,
        *,
        n_ctx: int | None = None,
        n_batch: int = 2048,
        n_ubatch: int = 512,
        n_seq_max: int = 1,
        n_ctx_seq: int = 0,
        type_k: str = "f16",
        type_v: str = "f16",
        n_threads: int | None = None,
        n_threads_batch: int | None = None,
        fusion: bool = True,
        never: Sequence[int] | None = None,
        n_longest: int = 0,
        rounded: bool = False,
    ) -> Context:
        """Memory and compute buffers for `n_seq_max` sequences of together `n_ctx` tokens (0: the
        model's training context; None: that, but at most 4096). `n_ctx_seq`: of the context that
        each sequence is to be computed in as if alone; 0: all of it. `never`: what is asked
        of most steps is where the highest logits are, but for these tokens (HIGHEST, see
        Context.process_ubatch). `n_longest`: no sequence will be longer, 0: than `n_ctx`; less
        memory is opened, and graphs made for the largest steps serve those like them. `rounded`:
        graphs are built for sizes that come again, for many prompts of all lengths."""
        params = ContextParams.of(
            self.hparams.n_ctx_train,
            n_ctx=n_ctx,
            n_batch=n_batch,
            n_ubatch=n_ubatch,
            n_seq_max=n_seq_max,
            n_ctx_seq=n_ctx_seq,
            type_k=type_k,
            type_v=type_v,
            n_threads=n_threads,
            n_threads_batch=n_threads_batch,
            fusion=fusion,
            never=None if never is None else tuple(sorted(set(never))),
            n_longest=n_longest,
            rounded=rounded,
        )
        if not self.weights:
            raise UsageError("the model is closed")
        try:
            made = Context(self._parts(), params)
        except room.NotEnough:
            raise
        except MemoryBudgetError as e:  # the system refused
            more = (params.n_seq_max, self._in_place(), available_bytes() or 0)
            raise room.not_enough(self._parts(), params, *more) from e
        self._contexts.add(made)
        return made

    def _parts(self) -> Parts:
        weights: dict[str, Tensor] = self.weights.tensors
        layers = self.placement.layer_device
        parts = Parts(self.arch, self.hparams, weights, self.devices, layers)
        return parts if self._overcommit else replace(parts, room=self._check_room)

    def _check_room(self, context: Context, n_outputs: int) -> None:
        room.check_context(context, n_outputs, self._in_place(), self._parts)

    def _in_place(self) -> int:
        return self.weights.in_place_bytes(self.gguf)

    def close(self) -> None:
        """Close the contexts still open, free the weights, unmap the file. Twice is fine."""
        for context in list(self._contexts):
            context.close()
        self.weights.close()
        self.gguf.close()
