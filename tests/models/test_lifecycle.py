"""Opening and closing: nothing leaks, and closed things say so."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from reference import unpack

from llamapy import Model
from llamapy.base.errors import ContextError, FileError, LlamapyError, UsageError


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
    [{"n_ctx": -1}, {"n_ubatch": 0}, {"type_k": "q9"}, {"n_seq_max": 0}, {"n_batch": -5}],
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
