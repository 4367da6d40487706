"""A sequence as bytes: it comes back as it was, and nothing in the bytes is believed unchecked."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llamapy.base.errors import ContextError, FileError, LlamapyError, UsageError
from llamapy.devices.cpu.buffers import HOST, HostBuffer
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import CacheShape, Memory, Ubatch
from llamapy.kv.hybrid import HybridCache
from llamapy.kv.recurrent import RecurrentCache
from llamapy.kv.saved import load, save
from llamapy.runtime.memory import open_memory

ABOUT = {"architecture": "fake", "n_embd": 64}
N_UBATCH = 8
STATES = [{"conv": (3, 2)}, {}, {"a": (5,), "b": (1, 2, 3)}]
KINDS = {
    "attention": {"is_swa": (True, False, False), "n_swa": 32},
    "mla": {"v_is_k": (True, True, True), "n_head_kv": (1, 1, 1)},
    "recurrent": {"n_head_kv": (0, 0, 0), "states": STATES},
    "hybrid": {"n_head_kv": (2, 1, 0), "states": STATES, "share": (0, 1, 0)},
}
MORE = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Host:
    default_buft = HOST

    def alloc(self, buft, n_bytes, usage):
        return HostBuffer(buft, n_bytes, usage)


def memory(kind: str, n_ctx=600, n_seq_max=3, type_k="f16", **more) -> Memory:
    of = {"n_head_kv": (2, 1, 3)} | KINDS[kind] | more
    states = of.pop("states", ({},) * 3)
    shape = CacheShape(n_embd_head_k=(64, 32, 64), n_embd_head_v=(32, 32, 64), **of)
    return open_memory(
        shape, states, lambda il: Host(),
        n_ctx=n_ctx, n_seq_max=n_seq_max, n_ubatch=N_UBATCH, type_k=type_k, type_v="q8_0",
    )  # fmt: skip


def attention_of(kv: Memory):
    return None if isinstance(kv, RecurrentCache) else getattr(kv, "attention", kv)


def state_tensors(kv: Memory) -> Iterator[Tensor]:
    return (t for il in range(3) for t in kv.state(il).values())


def fill(kv: Memory, rng: np.random.Generator, rows: list[tuple[int, int]]) -> None:
    """Ubatches of (sequence, number of tokens), which write noise wherever they may."""
    for seq, n in rows:
        first = kv.pos_max(seq) + 1
        pos = np.arange(first, first + n, dtype=np.int32)
        none = np.empty(0, np.int32)
        step = kv.begin(Ubatch(pos, pos, ((seq,),) * n, none, none))
        step.apply()
        attention = attention_of(kv)
        for layer in attention._layers.values() if attention else ():
            for t in (layer.k, layer.v):
                if t.view_src is None:
                    for head in range(t.ne[2]):
                        for cell in step.views[layer.group].rows.tolist():
                            at = t.offset_bytes + head * t.nb[2] + cell * t.nb[1]
                            t.buffer.write(at, rng.bytes(t.nb[1]))
        for t in state_tensors(kv):
            n_bytes = t.n_bytes // kv_cells(kv)
            for _, _, _, cell in step.runs.tolist():
                t.buffer.write(t.offset_bytes + cell * n_bytes, rng.bytes(n_bytes))


def kv_cells(kv: Memory) -> int:
    return (kv.recurrent if isinstance(kv, HybridCache) else kv).n_cells


def content(kv: Memory, seq: int) -> list[object]:
    """Everything kept of a sequence, found without the code under test."""
    found: list[object] = [kv.pos_max(seq)]
    if attention := attention_of(kv):
        for il, layer in sorted(attention._layers.items()):
            books = attention._groups[layer.group]
            cells = sorted(np.flatnonzero(books.member[seq]), key=lambda c: books.pos[c])
            found.append((il, [int(books.pos[c]) for c in cells]))
            for t in (layer.k, layer.v):
                buffer, at = t.home()
                for head in range(t.ne[2]):
                    row = t.type.row_bytes(t.ne[0])
                    found += [
                        bytes(buffer.read(at + head * t.nb[2] + int(c) * t.nb[1], row))
                        for c in cells
                    ]
    if not isinstance(kv, HybridCache | RecurrentCache):
        return found
    cell = (kv.recurrent if isinstance(kv, HybridCache) else kv).cells[seq]
    for t in state_tensors(kv):
        n_bytes = t.n_bytes // kv_cells(kv)
        if cell >= 0:
            found.append(bytes(t.buffer.read(t.offset_bytes + cell * n_bytes, n_bytes)))
    return found


def lived(kind: str, **more) -> Memory:
    """A memory with two sequences that have grown side by side."""
    kv = memory(kind, **more)
    rng = np.random.default_rng(1)
    fill(kv, rng, [(s, n) for n in (3, 8, 1, 5) for s in (1, 0, 1)])
    return kv


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_comes_back_as_it_was(kind):
    kv = lived(kind)
    data = save(kv, 1, ABOUT)
    for n_ctx, n_seq_max in ((600, 3), (100, 1), (4096, 2)):
        other = memory(kind, n_ctx=n_ctx, n_seq_max=n_seq_max)
        if n_seq_max > 1:
            fill(other, np.random.default_rng(2), [(1, 4)])
        beside = content(other, n_seq_max - 1) if n_seq_max > 1 else None
        load(other, 0, data, ABOUT, n_ctx)
        assert content(other, 0) == content(kv, 1)
        assert save(other, 0, ABOUT) == data
        if n_seq_max > 1 and n_seq_max - 1 == 1:
            assert content(other, 1) == beside
        fill(other, np.random.default_rng(3), [(0, 2)])
        assert other.pos_max(0) == kv.pos_max(1) + 2


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_sequence_is_saved_too(kind):
    kv, other = lived(kind), memory(kind)
    load(other, 2, save(kv, 2, ABOUT), ABOUT, 600)
    assert other.pos_max(2) == -1


def test_holes_are_kept():
    kv = lived("mla")
    assert kv.seq_rm(1, 5, 9)
    other = memory("mla")
    load(other, 0, save(kv, 1, ABOUT), ABOUT, 600)
    assert content(other, 0) == content(kv, 1)


def test_a_smaller_window_group_takes_what_the_next_token_sees():
    kv = memory("attention", n_seq_max=16)  # its window group has 600 cells
    fill(kv, np.random.default_rng(1), [(0, 8)] * 60)
    data = save(kv, 0, ABOUT)
    small = memory("attention", n_seq_max=1)
    load(small, 0, data, ABOUT, 600)
    assert attention_of(small)._groups[1].held(0).tolist() == list(range(480 - 256, 480))
    assert content(small, 0)[-1] == content(kv, 0)[-1]
    assert small.seq_rm(0, 470, -1)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_loaded_does_not_replace(kind):
    kv = lived(kind)
    with pytest.raises(UsageError, match="sequence 0 has tokens already"):
        load(kv, 0, save(kv, 1, ABOUT), ABOUT, 600)


def test_no_room_is_an_error_and_changes_nothing():
    kv = memory("hybrid", n_ctx=256)
    fill(kv, np.random.default_rng(1), [(0, 8)] * 20)
    data = save(kv, 0, ABOUT)
    before = content(kv, 0)
    with pytest.raises(ContextError, match="160 saved tokens.*--ctx-size"):
        load(kv, 1, data, ABOUT, 256)
    assert (kv.pos_max(1), content(kv, 0)) == (-1, before)
    with pytest.raises(FileError, match="the number of positions must be 0 to 100"):
        load(memory("hybrid", n_ctx=100), 0, data, ABOUT, 100)


@pytest.mark.parametrize(
    "name, kind, more, about",
    [
        ("architecture fake, and this context other", "attention", {}, {"architecture": "other"}),
        ("n_embd 64, and this context 65", "attention", {}, {"n_embd": 65}),
        ("types", "attention", {"type_k": "f32"}, {}),
        ("n_head_kv", "attention", {"n_head_kv": (1, 1, 1)}, {}),
        ("n_swa 32, and this context 33", "attention", {"n_swa": 33}, {}),
        ("causal", "mla", {"causal": False}, {}),
        ("states", "recurrent", {"states": [*STATES[:2], {}]}, {}),
        ("states", "hybrid", {"states": [*STATES[:2], {"a": (5,), "b": (3, 2, 1)}]}, {}),
    ],
)  # fmt: skip
def test_what_differs_is_named(name, kind, more, about):
    data = save(lived(kind), 0, ABOUT)
    with pytest.raises(UsageError, match=name):
        load(memory(kind, **more), 0, data, {**ABOUT, **about}, 600)


def packed(header: bytes, body: bytes, magic=b"llamapyS", version=1, n=None, crc=None) -> bytes:
    n = len(header) if n is None else n
    crc = zlib.crc32(body) if crc is None else crc
    return struct.pack("<8sII", magic, version, n) + header + struct.pack("<I", crc) + body


def apart(data: bytes) -> tuple[bytes, bytes]:
    """Header and body."""
    (n,) = struct.unpack_from("<I", data, 12)
    return data[16 : 16 + n], data[20 + n :]


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda h, b: b"", "the start"),
        (lambda h, b: packed(h, b, magic=b"GGUFGGUF"), "this is none"),
        (lambda h, b: packed(h, b, version=2), "version 2"),
        (lambda h, b: packed(h, b, n=1 << 31), "too long"),
        (lambda h, b: packed(h, b, n=1 << 20), "the header should take"),
        (lambda h, b: packed(h, b)[: 18 + len(h)], "the check sum"),
        (lambda h, b: packed(h, b, crc=7), "damaged"),
        (lambda h, b: packed(b"{", b), "no JSON"),
        (lambda h, b: packed(b"[" * 90000, b), "no JSON"),
        (lambda h, b: packed(b"[1]", b), "no JSON object"),
        (lambda h, b: packed(h[:-1] + b',"more":1}', b), "says more"),
        (lambda h, b: packed(h, b + b"x"), "1 bytes too many"),
        (lambda h, b: packed(h, b[:-1]), "should take"),
        (lambda h, b: packed(h, struct.pack("<i", -1) + b[4:]), "must be 0 to 600, found -1"),
        (lambda h, b: packed(h, struct.pack("<i", 1 << 30) + b[4:]), "must be 0 to 600"),
        (lambda h, b: packed(h, b[:4] + struct.pack("<i", -1) + b[8:]), "must ascend"),
        (lambda h, b: packed(h, b[:8] + struct.pack("<i", 9) + b[12:]), "must ascend"),
    ],
)
def test_bytes_that_are_no_saved_sequence_are_refused(change, match):
    data = change(*apart(save(lived("attention"), 0, ABOUT)))
    kv = memory("attention")
    with pytest.raises(FileError, match=match):
        load(kv, 0, data, ABOUT, 600)
    assert kv.pos_max(0) == -1


def test_windows_and_states_must_agree_with_the_cells():
    header, body = apart(save(lived("hybrid"), 0, ABOUT))
    with pytest.raises(FileError, match="its cells end at position 16, its states at 15"):
        n_states = sum(t.n_bytes for t in state_tensors(memory("hybrid"))) // 6
        at = len(body) - n_states - 4
        assert struct.unpack_from("<i", body, at) == (16,)
        bad = body[:at] + struct.pack("<i", 15) + body[at + 4 :]
        load(memory("hybrid"), 0, packed(header, bad), ABOUT, 600)
    kv = memory("attention", n_swa=4)
    fill(kv, np.random.default_rng(1), [(0, 8)])
    header, body = apart(save(kv, 0, ABOUT))
    at = 4 + 8 * (4 + sum(t.nb[1] * t.ne[2] for t in attention_of(kv)._tensors(0)))
    assert struct.unpack_from("<i7i", body, at) == (8, *range(7))
    for i, value, why in ((8, 8, "positions of no token"), (8, 6, "ascend")):
        bad = body[: at + 4 * i] + struct.pack("<i", value) + body[at + 4 * i + 4 :]
        with pytest.raises(FileError, match=why):
            load(memory("attention", n_swa=4), 0, packed(header, bad), ABOUT, 600)
    short = struct.pack("<i", 0)  # nothing in the window layers
    with pytest.raises(FileError, match="lack what the next token sees"):
        load(memory("attention", n_swa=4), 0, packed(header, body[:at] + short), ABOUT, 600)


@MORE
@given(st.data(), st.sampled_from(sorted(KINDS)))
def test_no_bytes_do_harm(data, kind):
    """Whatever is wrong is one of our errors, and the memory is as it was."""
    kv = lived(kind)
    header, body = apart(save(kv, 0, ABOUT))
    raw = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(len(raw), 200) - 1))
        raw[at : at + 4] = struct.pack("<i", data.draw(st.integers(-(2**31), 2**31 - 1)))
    cut = data.draw(st.integers(0, len(raw)))
    raw = raw[:cut] if data.draw(st.booleans()) else raw
    before = [content(kv, s) for s in range(3)]
    try:
        load(kv, 2, packed(header, bytes(raw)), ABOUT, 600)
    except LlamapyError:
        assert content(kv, 2) == before[2]
    else:
        assert kv.pos_max(2) < 600
    assert [content(kv, s) for s in range(2)] == before[:2]


def test_the_header_is_json_that_says_what_it_is_of():
    header, _ = apart(save(lived("hybrid"), 0, ABOUT))
    said = json.loads(header)
    assert said["architecture"] == "fake"
    assert said["types"] == {"0": ["f16", "q8_0"], "1": ["f16", "q8_0"]}
    assert said["states"][2] == {"a": [5], "b": [1, 2, 3]}
