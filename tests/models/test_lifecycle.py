"""Opening and closing: nothing leaks, and closed things say so."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from reference import unpack

from llamapy import Model
from llamapy.base.errors import (
    ContextError,
    FileError,
    LlamapyError,
    MemoryBudgetError,
    UsageError,
)
from llamapy.devices.cpu import CpuDevice
from llamapy.devices.cpu.buffers import HostBuffer
from llamapy.ffi.pool import Aborted


def resident_kib() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def state() -> tuple[int, int, int]:
    maps = Path("/proc/self/maps").read_text().count(".gguf")
    return len(os.listdir("/proc/self/fd")), maps, threading.active_count()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_a_hundred_opens_leak_nothing(tmp_path):
    path = unpack("llama-dense", tmp_path)

    def once() -> None:
        with Model.open(path) as model, model.context(n_ctx=256, n_threads=2) as ctx:
            ctx.decode([1, 2, 3])

    for _ in range(10):
        once()
    before, kib = state(), resident_kib()
    tasks = len(os.listdir("/proc/self/task"))
    for _ in range(100):
        once()
    assert state() == before
    assert len(os.listdir("/proc/self/task")) == tasks
    assert resident_kib() - kib < 4096


def test_closing_the_model_closes_its_contexts(tmp_path):
    model = Model.open(unpack("llama-dense", tmp_path))
    ctx = model.context(n_ctx=256)
    ctx.decode([1])
    model.close()
    model.close()
    with pytest.raises(UsageError, match="closed"):
        model.context(n_ctx=256)
    with pytest.raises(LlamapyError):
        ctx.decode([1])


def test_a_closed_context_starts_and_opens_nothing(open_model):
    ctx = open_model("llama-dense").context(n_ctx=256, n_threads=2)
    ctx.decode([1])
    ctx.close()
    n_threads = len(os.listdir("/proc/self/task")) if Path("/proc/self/task").exists() else 0
    ctx.abort()
    for use in (ctx.interruptible, ctx.dump_graph, lambda: ctx.decode([1])):
        with pytest.raises(UsageError, match="closed"):
            use()
    ctx.close()
    assert sum(ctx.buffer_bytes().values()) == 0
    if n_threads:
        assert len(os.listdir("/proc/self/task")) <= n_threads


def test_abort_ends_one_run_and_changes_nothing(open_model):
    model = open_model("llama-dense")
    with model.context(n_ctx=256) as ctx, model.context(n_ctx=256) as other:
        ctx.decode([1, 2, 3])
        ctx.abort()
        with pytest.raises(Aborted):
            ctx.decode([4, 5])
        assert ctx.n_past() == 3
        other.decode([1, 2, 3])
        assert np.array_equal(ctx.decode([4, 5]), other.decode([4, 5]))


def test_ctrl_c_whose_handler_raises_ends_one_run(open_model, monkeypatch):
    with open_model("llama-dense").context(n_ctx=256) as ctx, ctx.interruptible():
        run = ctx._pool._run

        def struck(*args):
            monkeypatch.undo()
            signal.raise_signal(signal.SIGINT)  # the flag is set, then KeyboardInterrupt is raised
            return run(*args)

        monkeypatch.setattr(ctx._pool, "_run", struck)
        with pytest.raises(KeyboardInterrupt):
            ctx.decode([1])
        assert ctx.n_past() == 0
        assert ctx.decode([1, 2]).shape == (1, 128)


def test_a_context_that_finds_no_memory_leaves_none_behind(open_model, monkeypatch):
    freed, free = [], HostBuffer.free
    monkeypatch.setattr(HostBuffer, "free", lambda self: (freed.append(self.usage), free(self))[1])
    alloc = CpuDevice.alloc

    def scarce(self, buft, n_bytes, usage):
        if usage == "compute":
            raise MemoryBudgetError("no memory")
        return alloc(self, buft, n_bytes, usage)

    monkeypatch.setattr(CpuDevice, "alloc", scarce)
    with pytest.raises(MemoryBudgetError):
        open_model("llama-dense").context(n_ctx=256)
    assert freed == ["any"]


def test_a_graph_of_no_kind_is_not_shown(open_model):
    with open_model("llama-dense").context(n_ctx=256) as ctx:
        for kind, format in [("decoding", "text"), ("decode", "svg")]:
            with pytest.raises(UsageError, match="kind"):
                ctx.dump_graph(kind, format)


def test_what_cannot_be_decoded_is_refused_and_changes_nothing(open_model):
    with open_model("llama-dense").context(n_ctx=256) as ctx:
        ctx.decode([1, 2, 3])
        for bad, error in [
            (lambda: ctx.decode([]), UsageError),
            (lambda: ctx.decode([128]), UsageError),
            (lambda: ctx.decode([-1]), UsageError),
            (lambda: ctx.decode([1], seq_id=1), UsageError),
            (lambda: ctx.decode([1], pos=7), UsageError),
            (lambda: ctx.decode([1], logits="first"), UsageError),
            (lambda: ctx.decode([1] * 254), ContextError),
        ]:
            with pytest.raises(error):
                bad()
        assert ctx.n_past() == 3
        assert ctx.decode([1] * 253).shape == (1, 128)


@pytest.mark.parametrize(
    "params",
    [
        {"n_ctx": -1},
        {"n_ubatch": 0},
        {"type_k": "q9"},
        {"n_seq_max": 0},
        {"n_batch": -5},
        {"n_threads": 0},
    ],
)
def test_bad_sizes_are_refused(open_model, params):
    with pytest.raises(UsageError):
        open_model("llama-dense").context(**{"n_ctx": 256, **params})


def test_an_unknown_architecture_names_itself_and_the_near_one(tmp_path):
    raw = unpack("llama-dense", tmp_path).read_bytes()
    # The value of general.architecture keeps its length; the other keys keep the old prefix.
    i = raw.index(b"general.architecture") + len(b"general.architecture") + 12
    assert raw[i : i + 5] == b"llama"
    path = tmp_path / "other.gguf"
    path.write_bytes(raw[:i] + b"lamaa" + raw[i + 5 :])
    with pytest.raises(FileError, match=r"'lamaa'.*did you mean 'llama'.*gemma3"):
        Model.open(path)
