"""Weights with interleaved rows: which ones, when, and the same bits."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from reference import unpack

from llamapy.app.bench.shapes import Shape, Spec
from llamapy.app.bench.synthetic import make_files
from llamapy.base.errors import MemoryBudgetError, UsageError
from llamapy.base.log import log
from llamapy.base.types import BY_NAME
from llamapy.devices.cpu import CpuDevice
from llamapy.devices.cpu.buffers import REPACK
from llamapy.graph.tensor import PARAM, Tensor
from llamapy.loader import repack
from llamapy.loader.place_flags import PlaceFlags
from llamapy.loader.spec import TensorSpec
from llamapy.runtime.engine import Engine

SMALL = Shape(n_layer=2, n_embd=256, n_ff=512, n_head=4, n_head_kv=2, n_embd_head=64, n_vocab=320)
EMBEDDING = "token_embd.weight"
IDS = [5, 17, 255, 3, 9, 100, 42]


def opened(kind: str, choice: str | None, *, tied: bool = False) -> Engine:
    files = make_files(Spec("small", replace(SMALL, tied=tied), kind))
    return Engine.of_files(files, PlaceFlags(), repack=choice, n_threads=2)


def logits(engine: Engine) -> bytes:
    """Of a prompt and of three single steps."""
    with engine.context(n_ctx=64, n_ubatch=4, n_threads=2) as ctx:
        parts = [
            ctx.decode(IDS, logits="all"),
            *(ctx.decode([i], logits="last") for i in (1, 2, 3)),
        ]
        return b"".join(np.asarray(p).tobytes() for p in parts)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K_M", "Q3_K_M", "IQ4_XS"])
def test_the_same_bits(kind: str, tied: bool) -> None:
    with opened(kind, "off", tied=tied) as plain, opened(kind, "on", tied=tied) as made:
        assert not plain.repacked.n_tensors
        assert made.repacked.n_tensors == 2 * 7 + 1 and not made.repacked.kept
        assert logits(made) == logits(plain)
        embedding = made.weights[EMBEDDING]
        assert (embedding.twin is not None) == tied


def test_what_has_no_such_form_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("IQ3_S", "off") as plain, opened("IQ3_S", "on") as made:
        assert made.repacked.kept["iq3_s has no such form"] > 0
        assert logits(made) == logits(plain)
    with opened("F16", "on") as made:
        assert made.repacked.n_tensors == 0


def test_rows_that_do_not_come_in_eights_stay() -> None:
    shape = replace(SMALL, n_vocab=324)
    with Engine.of_files(make_files(Spec("odd", shape, "Q4_0")), PlaceFlags(), repack="on") as made:
        assert made.repacked.kept == {"its rows are not a multiple of 8": 1}
        assert made.repacked.n_tensors == 14


def test_auto_waits_until_it_pays() -> None:
    with opened("Q4_0", "off") as plain, opened("Q4_0", "auto") as made:
        want = logits(plain)
        made.will_generate(repack.WORTH_STEPS - 1)
        assert made.repacked.n_tensors == 0
        assert logits(made) == want
        made.will_generate(repack.WORTH_STEPS)
        assert made.repacked.n_tensors == 15
        first = made.repacked
        made.will_generate(1000)  # once is enough
        assert made.repacked is first
        assert logits(made) == want


def test_auto_leaves_half_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repack, "available_bytes", lambda: 2 << 20)
    with opened("Q8_0", "auto") as made:
        made.will_generate(1000)
        assert made.repacked.n_tensors == 0
        (reason,) = made.repacked.kept
        assert reason.endswith("bytes are more than half of the 2097152 available")
        assert logits(made)
    with opened("Q8_0", "on") as made:
        assert made.repacked.n_tensors == 15
    monkeypatch.setattr(repack, "available_bytes", lambda: 1 << 20)
    with pytest.raises(MemoryBudgetError, match="--repack on: no memory for [0-9]+ bytes"):
        opened("Q8_0", "on")


def test_what_contexts_are_going_to_use_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("Q8_0", "on") as made:
        n_bytes = made.repacked.n_bytes
    for less, n_tensors in ((0, 15), (1, 0)):
        with opened("Q8_0", "auto") as made, made.context(n_ctx=1024) as ctx:
            promised = sum(ctx.buffer_bytes().values())
            monkeypatch.setattr(
                repack, "available_bytes", lambda n=promised + 2 * n_bytes - less: n
            )
            made.will_generate(1000)
            assert made.repacked.n_tensors == n_tensors


def test_plain_c_gains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CpuDevice, "repack_pays", False)
    with opened("Q4_0", "auto") as made:
        made.will_generate(1000)
        assert made.repacked.kept == {"plain C gains nothing from it": 15}


def test_locked_weights_stay() -> None:
    files = make_files(Spec("small", SMALL, "Q4_0"))
    with Engine.of_files(files, PlaceFlags(), load_mode="mmap+mlock", repack="auto") as made:
        made.will_generate(1000)
        assert made.repacked.kept == {"the load mode keeps the file in memory": 15}


@pytest.mark.parametrize("at_once", [1, repack.AT_ONCE_BYTES])
def test_how_far_it_is(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repack, "AT_ONCE_BYTES", at_once)
    seen: list[tuple[str, int, int]] = []
    with opened("Q4_0", "off") as plain, opened("Q4_0", "auto") as made:
        made.will_generate(1000, progress=lambda *at: seen.append(at))
        total = made.repacked.n_bytes
        assert seen[0] == ("repacking", 0, total) and seen[-1] == ("repacking", total, total)
        assert len(seen) == (16 if at_once == 1 else 2) and seen == sorted(seen)
        assert logits(made) == logits(plain)


def test_an_interrupt_leaves_the_weights_as_they_were() -> None:
    with opened("Q4_0", "off") as plain, opened("Q4_0", "auto") as made:
        made.will_generate(1000, lambda: True)
        assert made.repacked.kept == {"interrupted": 15}
        assert all(t.twin is None for t in made.weights.values())
        assert logits(made) == logits(plain)


def refuse(monkeypatch: pytest.MonkeyPatch, what: str, error: type[BaseException]) -> None:
    """Let a device that repacks fail to find memory, in `what` it does: alloc or lower."""
    whole = getattr(CpuDevice, what)

    def failing(device: CpuDevice, first: Any, *more: Any, **how: Any) -> Any:
        repacks = first is REPACK or (what == "lower" and first[0].op == "repack")
        if repacks:
            raise error("none left")
        return whole(device, first, *more, **how)

    monkeypatch.setattr(CpuDevice, what, failing)


@pytest.mark.parametrize(("what", "error"), [("alloc", MemoryBudgetError), ("lower", MemoryError)])
def test_without_memory_auto_goes_on_and_on_does_not(
    what: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened("Q4_0", "off") as plain:
        want = logits(plain)
    refuse(monkeypatch, what, error)
    log.setup()
    lines: list[str] = []
    monkeypatch.setattr(log, "sink", lines.append)
    with opened("Q4_0", "auto") as made:
        n_buffers = len(made.weights.buffers)
        made.will_generate(1000)
        made.will_generate(1000)  # asks once
        (line,) = lines
        (reason,) = made.repacked.kept
        assert line.startswith("llamapy: W09: weights are not repacked: no memory for ")
        assert made.repacked.facts()["why_not"] == reason and reason in line
        assert made.repacked.kept[reason] == 15 and len(made.weights.buffers) == n_buffers
        assert logits(made) == want
    with pytest.raises(MemoryBudgetError, match="--repack on: no memory for [0-9]+ bytes"):
        opened("Q4_0", "on")


def test_the_facts_say_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("Q4_0", "auto") as made:
        facts = made.repacked.facts()
        assert not facts["done"] and facts["why_not"] == "fewer than 40 tokens to generate"
        made.will_generate(1000)
        facts = made.repacked.facts()
        assert facts["done"] and facts["why_not"] is None and facts["seconds"] > 0
        assert facts["n_bytes"] == sum(t.n_bytes for t in made.weights.values() if t.twin)
    for kind, choice, reason in (
        ("Q4_0", "off", "not asked for"),
        ("F16", "on", "no product reads a quantised weight"),
    ):
        with opened(kind, choice) as made:
            assert made.repacked.facts()["why_not"] == reason


def test_another_word_is_refused() -> None:
    with pytest.raises(UsageError, match="--repack maybe: expected one of auto, on, off"):
        opened("Q4_0", "maybe")


@pytest.mark.parametrize("given", [None, "off"])
def test_the_environment_says_when_no_flag_does(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMAPY_REPACK", "on")
    with opened("Q4_0", given) as made:
        assert made.repacked.asked == (given or "on")
        assert made.repacked.n_tensors == (0 if given else 15)
    monkeypatch.setenv("LLAMAPY_REPACK", "")
    with opened("Q4_0", None) as made:
        assert made.repacked.asked == "auto"
    monkeypatch.setenv("LLAMAPY_REPACK", "of")
    with pytest.raises(UsageError, match="LLAMAPY_REPACK=of: not one of auto, on, off; did you"):
        opened("Q4_0", None)


def test_pages_of_the_file_are_given_back(tmp_path: Path) -> None:
    """All but those that other tensors share, and the embedding's, whose rows are read."""
    shape = replace(SMALL, n_embd=512, n_ff=2048)
    spec = Spec("file", shape, "Q8_0")
    path = tmp_path / "model.gguf"
    with make_files(spec) as files:
        path.write_bytes(files.shards[0].view)
    with Engine.open(path, repack="off") as engine:
        want = logits(engine)
        touched = engine.weights.resident_bytes()
    with Engine.open(path, repack="on") as engine:
        left = engine.weights.resident_bytes()
        assert touched is not None and left is not None
        assert left < touched - engine.repacked.n_bytes // 2
        assert logits(engine) == want


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("choice", ["on", "auto"])
def test_copies_go_where_twins_stand_for_them(choice: str, tied: bool, tmp_path: Path) -> None:
    """What was read into memory is not there twice; a context opened before goes on with it."""
    path = tmp_path / "model.gguf"
    with make_files(Spec("file", replace(SMALL, tied=tied), "Q4_0")) as files:
        path.write_bytes(files.shards[0].view)
    with Engine.open(path, load_mode="read", repack="off") as engine:
        want = logits(engine)
        assert len(engine.weights.buffers) == 1
    with Engine.open(path, load_mode="read", repack=choice) as engine:
        copies = [weakref.ref(b) for b in engine.weights.buffers]
        with engine.context(n_ctx=64, n_threads=2) as ctx:
            first = ctx.decode([5], logits="last").tobytes()
            engine.will_generate(1000)
            ctx.clear()
            built = ctx.counters.built
            assert ctx.decode([5], logits="last").tobytes() == first
            assert ctx.counters.built == built + (choice == "auto")
        assert engine.repacked.n_tensors == 15
        n_copies = sum(b.n_bytes for b in engine.weights.buffers if b.type is not REPACK)
        kept = [t for t in engine.weights.values() if t.twin is None or t.name == EMBEDDING]
        assert n_copies == pytest.approx(sum(t.n_bytes for t in kept), abs=64 * len(kept))
        if choice == "auto":
            assert sum(ref() is None for ref in copies) == (14 if tied else 15)
        with make_files(Spec("file", replace(SMALL, tied=tied), "Q4_0")) as plain:
            for name, info in plain.tensors.items():
                buffer, offset = engine.weights[name].home()
                assert buffer.read(offset, info.n_bytes) == plain.data(info)
        assert logits(engine) == want


def test_float_weights_have_no_twin(tmp_path: Path) -> None:
    with Engine.open(unpack("llama-dense", tmp_path), repack="on") as engine:
        assert engine.repacked.n_tensors == 0


def test_auto_leaves_experts_of_which_a_token_reads_few() -> None:
    device = CpuDevice(1)
    bank = Tensor(BY_NAME["q8_0"], (64, 16, 4, 1), name="bank", flags=PARAM)
    bank.buffer = device.alloc(device.default_buft, bank.n_bytes, "weights")
    spec = TensorSpec("bank", (64, 16, 4), 0, "layer", op="mul_mat_id")
    matched: Any = SimpleNamespace(found={"bank": (spec, None)}, absent=())
    weights: Any = {"bank": bank}
    for choice, chosen in (("auto", []), ("on", [bank])):
        out = repack.Repacked(choice)
        assert list(repack.candidates(weights, matched, device, out)) == chosen
        assert sum(out.kept.values()) == 1 - len(chosen)
    device.close()
