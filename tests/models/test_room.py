"""Memory that is not there is missed before it is used, and said with what would fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from reference import unpack

from llamapy import Model
from llamapy.base.errors import MemoryBudgetError
from llamapy.base.memory import in_units
from llamapy.devices.cpu import CpuDevice
from llamapy.graph.device import BufferType
from llamapy.runtime import room
from llamapy.runtime.params import ContextParams
from llamapy.runtime.room import context_bytes, largest_ctx, remedies

SIZES = {"n_ctx": 8192, "n_ubatch": 256, "n_threads": 2}


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Model]:
    with Model.open(unpack("llama-dense", tmp_path)) as made:
        yield made


def available(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(room, "available_bytes", lambda: n)


def test_what_is_counted_is_what_is_opened(open_model: Callable[[str], Model]) -> None:
    for name in ("llama-dense", "gemma3-dense"):
        made = open_model(name)
        for sizes in ({"n_ctx": 1024}, {"n_ctx": 2048, "n_ubatch": 64, "n_seq_max": 4}):
            params = ContextParams.of(
                made.hparams.n_ctx_train, n_threads=2, n_threads_batch=None, **sizes
            )
            need = context_bytes(made._parts(), params)
            with made.context(n_threads=2, **sizes) as ctx:
                opened = ctx.buffer_bytes()
                assert need.cache == opened["kv"] and need.compute == {"CPU": opened["CPU"]}
                assert need.output == 4 * 128 * sizes.get("n_seq_max", 1)
                parts = need.cache + need.compute["CPU"] + need.scratch + need.output
                assert need.on_host == parts
                ctx.decode(range(40))
                assert 0 < len(ctx._pool._scratch) - 64 <= need.scratch
            more = context_bytes(made._parts(), params, n_outputs=32)
            with made.context(n_threads=2, **sizes) as ctx:
                ctx.decode(range(32), logits="all")
                assert more.compute == {"CPU": ctx.buffer_bytes()["CPU"]}


def test_what_does_not_fit_is_refused_with_what_does(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with model.context(**SIZES) as ctx:
        opened, output = ctx.buffer_bytes(), ctx.output_bytes(1)
    weights = model.weights.in_place_bytes(model.gguf)
    assert weights == model.weights.n_bytes > 0
    whole = weights + sum(opened.values()) + output
    available(monkeypatch, whole)
    model.context(**SIZES).close()
    available(monkeypatch, whole - 1)
    with pytest.raises(MemoryBudgetError) as e:
        model.context(**SIZES)
    text = str(e.value)
    for n in (weights, opened["kv"], whole - 1):
        assert in_units(n) in text
    assert "a context of 8192" in text and e.value.exit_code == 5
    (n_ctx,) = map(int, re.findall("--ctx-size ([0-9]+)", text))
    assert text.endswith("-ctk q8_0 -ctv q8_0") and n_ctx in (8192 - 256, 8192 - 512)
    model.context(**SIZES | {"n_ctx": n_ctx}).close()
    model.context(**SIZES, type_k="q8_0", type_v="q8_0").close()


def test_smaller_graphs_are_a_remedy(model: Model) -> None:
    parts = model._parts()
    params = ContextParams.of(128, n_ctx=256, n_ubatch=256, n_threads=2, n_threads_batch=None)
    least = context_bytes(parts, replace(params, n_ubatch=64)).on_host
    assert list(remedies(parts, params, 1, least)) == ["--ubatch-size 64"]
    both = context_bytes(parts, replace(params, n_ubatch=64, type_k="q8_0", type_v="q8_0")).on_host
    assert list(remedies(parts, params, 1, both)) == ["-ctk q8_0 -ctv q8_0 -ub 64"]
    assert list(remedies(parts, params, 1, both - 1)) == []


def test_fewer_sequences_are_a_remedy(model: Model) -> None:
    parts = model._parts()
    params = ContextParams.of(
        128, n_ctx=2048, n_seq_max=8, n_ubatch=64, n_threads=2, n_threads_batch=None, type_k="q8_0"
    )
    three = context_bytes(parts, replace(params, n_seq_max=3, n_ctx=768)).on_host
    assert next(remedies(parts, params, 1, three)) == "--parallel 2"
    one = context_bytes(parts, replace(params, n_seq_max=1, n_ctx=256)).on_host
    assert next(remedies(parts, params, 1, one)) == "--parallel 1"
    assert not list(remedies(parts, params, 1, one - 1))


def test_where_nothing_fits_the_way_on_is_named(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    available(monkeypatch, 1000)
    with pytest.raises(MemoryBudgetError, match="--overcommit goes on regardless"):
        model.context(**SIZES)
    with Model.open(model.gguf.path, overcommit=True) as bold, bold.context(**SIZES) as ctx:
        assert ctx.decode([1]).shape == (1, 128)


def test_a_context_that_grows_is_looked_at_again(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with model.context(**SIZES) as ctx:
        whole = sum(ctx.buffer_bytes().values()) + ctx.output_bytes(1) + model.weights.n_bytes
        available(monkeypatch, whole - 1)
        ctx.decode([1, 2, 3], logits="last")
        for _ in range(2):
            with pytest.raises(MemoryBudgetError, match="what fits: --ctx-size"):
                ctx.decode([1] * 256, logits="all")


def test_copies_are_looked_at_before_they_are_made(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = model.weights.n_bytes
    monkeypatch.setattr(room, "available_bytes", lambda: n)
    with Model.open(model.gguf.path, load_mode="read") as copied:
        assert copied.weights.in_place_bytes(copied.gguf) == 0
        available(monkeypatch, 10 << 20)
        copied.context(n_ctx=256).close()
    available(monkeypatch, n - 1)
    with pytest.raises(MemoryBudgetError, match="--load-mode mmap reads them in place"):
        Model.open(model.gguf.path, load_mode="read")
    Model.open(model.gguf.path, load_mode="read", overcommit=True).close()


def test_a_system_that_refuses_is_explained_as_well(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scarce(self: CpuDevice, buft: BufferType, n_bytes: int, usage: str) -> None:
        raise MemoryBudgetError("refused")

    monkeypatch.setattr(CpuDevice, "alloc", scarce)
    with pytest.raises(MemoryBudgetError, match="cache for a context of 8192 .* available"):
        model.context(**SIZES)
    with pytest.raises(MemoryBudgetError, match="at most"):
        model.context(n_ctx=1 << 40)


@pytest.mark.parametrize("room_bytes", [0, 99, 100, 355, 356, 1000, 5000, 8291, 8292, 10**9])
@pytest.mark.parametrize("kind", ["line", "curve"])
def test_the_largest_context(room_bytes: int, kind: str) -> None:
    asked: list[int] = []

    def cost(n: int) -> int:
        asked.append(n)
        return 100 + n if kind == "line" else 100 + n * n // 1000

    found = largest_ctx(cost, room_bytes, 8192)
    fits = [n for n in (*range(256, 8193, 256), 8192) if cost(n) <= room_bytes]
    assert found == max(fits, default=None)
    asked.clear()
    largest_ctx(cost, room_bytes, 8192)
    assert len(asked) <= (6 if kind == "line" else 16)
