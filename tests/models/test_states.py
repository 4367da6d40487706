"""Small models with states, alone and beside attention: the laws that hold for any memory."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llamapy.base.errors import ContextError, UsageError
from llamapy.base.types import F32
from llamapy.devices.cpu.buffers import HOST, HostBuffer
from llamapy.graph.compiled import Compiled
from llamapy.graph.ops import make, reshape
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import CacheShape
from llamapy.loader.stacks import Stacks
from llamapy.models.blocks.attn import store_and_attend
from llamapy.models.blocks.ends import only_outputs
from llamapy.models.builder import Builder
from llamapy.models.inputs import token_ids
from llamapy.models.registry import Architecture
from llamapy.runtime.batch import Batch, join, single
from llamapy.runtime.context import Context, ContextParams, Parts

N, N_VOCAB, N_CONV, N_SEQ = 32, 40, 4, 3
KINDS = ("recurrent", "hybrid")


@dataclass(frozen=True)
class Shape:
    """As much of HParams as a context asks for. Layer 1 attends in a hybrid."""

    kind: str
    arch: str = "fake"
    n_vocab: int = N_VOCAB
    n_embd: int = N
    n_layer: int = 3
    n_ctx_train: int = 512
    attention_scale: float = 0.0
    max_alibi_bias: float = 0.0
    attn_softcap: float = 0.0
    layer_weights: tuple[int, ...] = ()
    stacks: Stacks = Stacks()

    @property
    def attends(self) -> tuple[int, ...]:
        return (0, 1 if self.kind == "hybrid" else 0, 0)


def cache(hp: Shape) -> CacheShape:
    return CacheShape(hp.attends, (N,) * 3, (N,) * 3)


def states(hp: Shape) -> list[dict[str, tuple[int, ...]]]:
    return [{"shift": (N,), "conv": (N_CONV - 1, N)}, {"conv": (N_CONV - 1, N)}, {"shift": (N,)}]


def build(g: Builder) -> None:
    x = make("get_rows", g.weight("embd"), g.add_input(token_ids(g.shape.n_tokens)))
    for il, of in enumerate(states(g.hp)):
        h = x
        if "shift" in of:
            h = make("add", h, make("token_shift", g.state(il, "shift"), h, g.runs))
        if "conv" in of:
            h = make("ssm_conv", g.state(il, "conv"), h, g.layer(il, "conv"), g.runs)
        h = make("mul_mat", g.layer(il, "mix"), make("tanh", h))
        if g.hp.attends[il]:
            k = reshape(h, N, 1, g.shape.n_tokens)
            h = make("add", h, store_and_attend(g, il, k, k, k))
        x = make("add", x, h)
    (x,) = only_outputs(g, x)
    g.finish(make("mul_mat", g.weight("out"), x))


ARCH = Architecture("fake", None, None, build, frozenset(), cache, states)


@functools.cache
def weights() -> dict[str, Tensor]:
    rng = np.random.default_rng(5)
    of = {"embd": (N, N_VOCAB), "out": (N, N_VOCAB)}
    of |= {f"blk.{il}.{name}": ne for il in range(3)
           for name, ne in (("conv", (N_CONV, N)), ("mix", (N, N)))}  # fmt: skip
    made = {}
    for name, ne in of.items():
        t = Tensor(F32, (*ne, 1, 1), name=name)
        t.buffer = HostBuffer(HOST, t.n_bytes, "weights")
        t.buffer.write(0, (rng.standard_normal(ne[::-1]) / N**0.5).astype(np.float32))
        made[name] = t
    return made


def context(kind: str, n_seq_max=N_SEQ, n_ubatch=16, n_threads=1, **more) -> Context:
    sizes = {"n_ctx": 512, "type_k": "f32", "type_v": "f32"} | more
    params = ContextParams(
        n_seq_max=n_seq_max, n_ubatch=n_ubatch, n_threads=n_threads, n_threads_batch=n_threads,
        **sizes,
    )  # fmt: skip
    return Context(Parts(ARCH, Shape(kind), weights(), [], ["CPU"] * 3), params)


TOKENS = tuple(i * 7 % N_VOCAB for i in range(90))


@functools.cache
def alone(kind: str, tokens: tuple[int, ...]) -> np.ndarray:
    """Logits of a sequence computed by itself, token by token."""
    with context(kind, n_seq_max=1) as ctx:
        return np.concatenate([ctx.decode([t]) for t in tokens])


def test_tokens_before_matter():
    for kind in KINDS:
        a, b = alone(kind, (1, 2, 3)), alone(kind, (5, 2, 3))
        assert not np.allclose(a[2], b[2])
        assert np.isfinite(a).all()
    assert not np.allclose(alone("recurrent", (1, 2, 3))[2], alone("hybrid", (1, 2, 3))[2])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_ubatch", [1, 7, 64])
@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_may_be_cut_anywhere(kind, n_ubatch, n_threads):
    want = alone(kind, TOKENS)
    with context(kind, n_ubatch=n_ubatch, n_threads=n_threads) as ctx:
        assert np.array_equal(ctx.decode(TOKENS, logits="all"), want)
        ctx.decode(TOKENS[:40], seq_id=1, logits="none")
        assert np.array_equal(ctx.decode(TOKENS[40:], seq_id=1, logits="all"), want[40:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_run_builds_two_graphs(kind):
    with context(kind, n_ctx=512, n_ubatch=64) as ctx:
        ctx.decode(TOKENS[:30])
        for i in range(299):
            ctx.decode([i % N_VOCAB])
        # A list of positions is longer once more than 256 are there.
        assert ctx.counters.built == (2 if kind == "recurrent" else 3)
        assert ctx.counters.reused == 300 - ctx.counters.built


@pytest.mark.parametrize("kind", KINDS)
def test_interleaved_sequences_are_each_their_own(kind):
    lists = [tuple((i * k + 3) % N_VOCAB for i in range(20 + k)) for k in range(1, N_SEQ + 1)]
    with context(kind) as ctx:
        whole = join([single(t, 0, s, "all") for s, t in enumerate(lists)])
        order = np.random.default_rng(1).permutation(whole.n_tokens)
        order = sorted(order.tolist(), key=lambda i: int(whole.pos[i]))
        batch = Batch(whole.tokens[order], whole.pos[order], tuple(whole.seqs[i] for i in order),
                      whole.want[order])  # fmt: skip
        got = ctx.decode_batch(batch)
    for row, pos, seqs in zip(got, batch.pos, batch.seqs, strict=True):
        assert np.array_equal(row, alone(kind, lists[seqs[0]])[pos])


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_broke_off_leaves_no_trace(kind, monkeypatch):
    with context(kind) as ctx:
        ctx.decode(TOKENS[:40], logits="none")
        whole = Compiled.run

        def broken(self):
            whole(self)
            raise KeyboardInterrupt

        monkeypatch.setattr(Compiled, "run", broken)
        for junk in ([9] * 16, [5], [1] * 7):
            with pytest.raises(KeyboardInterrupt):
                ctx.decode(junk)
        monkeypatch.undo()
        assert ctx.n_past() == 40
        assert np.array_equal(ctx.decode(TOKENS[40:], logits="all"), alone(kind, TOKENS)[40:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_sequence_goes_on_with_the_same_bits(kind):
    with context(kind) as ctx, context(kind, n_seq_max=1, n_ubatch=5) as other:
        ctx.decode(TOKENS[::-1], seq_id=2)
        ctx.decode(TOKENS[:40], seq_id=1)
        other.state_load(ctx.state_save(1))
        assert np.array_equal(other.decode(TOKENS[40:], logits="all"), alone(kind, TOKENS)[40:])


@pytest.mark.parametrize("kind", KINDS)
def test_positions_end_with_the_context(kind):
    with context(kind, n_ctx=64) as ctx:
        ctx.decode(TOKENS[:64])
        with pytest.raises(ContextError, match="--ctx-size"):
            ctx.decode([1])
        assert not ctx.seq_rm(0, 10)
        assert ctx.seq_rm(0, 0)
        assert np.array_equal(ctx.decode(TOKENS[:9]), alone(kind, TOKENS)[8:9])


@pytest.mark.parametrize("kind", KINDS)
def test_states_cost_what_is_said(kind):
    with context(kind) as ctx:
        cells = 2 * N_SEQ * 4 * N * (2 + 2 * (N_CONV - 1))
        assert ctx.buffer_bytes()["kv"] == cells + (2 * 512 * N * 4 if kind == "hybrid" else 0)
        assert "state_conv-1" in ctx.dump_graph()
        assert "inp_runs" in ctx.dump_graph("prompt")


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data(), st.sampled_from(KINDS))
def test_any_operations_leave_each_sequence_its_own(open_contexts, data, kind):
    ctx = open_contexts[kind]
    ctx.clear()
    lists: list[tuple[int, ...]] = [()] * N_SEQ
    seq = st.integers(0, N_SEQ - 1)
    for _ in range(data.draw(st.integers(1, 8))):
        what = data.draw(st.sampled_from(["decode", "decode", "shared", "rm", "cp", "keep"]))
        s, d = data.draw(seq), data.draw(seq)
        if what in ("decode", "shared"):
            same = tuple(sorted(ctx.memory.twins(s))) if what == "shared" else (s,)
            rows = [same] * data.draw(st.integers(1, 9))
            rows += data.draw(st.lists(st.tuples(seq), max_size=20))
            pos, after = [], list(lists)
            for i, seqs in enumerate(rows):
                pos.append(len(after[seqs[0]]))
                for q in seqs:
                    after[q] += ((i * 7 + seqs[0]) % N_VOCAB,)
            n = len(rows)
            tokens = np.array([after[r[0]][p] for r, p in zip(rows, pos, strict=True)], np.int32)
            got = ctx.decode_batch(Batch(tokens, np.array(pos, np.int32), tuple(rows),
                                         np.ones(n, np.bool_)))  # fmt: skip
            lists = after
            for row, p, seqs in zip(got, pos, rows, strict=True):
                assert np.array_equal(row, alone(kind, lists[seqs[0]][: p + 1])[p])
        elif what == "rm":
            assert ctx.seq_rm(s, 0)
            lists[s] = ()
        elif what == "cp" and s != d:
            if lists[s] and lists[d]:
                with pytest.raises(UsageError, match="of its own"):
                    ctx.seq_cp(s, d)
                assert ctx.seq_rm(d, 0)
                lists[d] = ()
            ctx.seq_cp(s, d)
            lists[d] = lists[s] or lists[d]
        elif what == "keep":
            ctx.seq_keep(s)
            lists = [x if i == s else () for i, x in enumerate(lists)]
        assert [ctx.n_past(q) for q in range(N_SEQ)] == [len(x) for x in lists]


@pytest.fixture(scope="module")
def open_contexts():
    opened = {kind: context(kind, n_ubatch=11) for kind in KINDS}
    yield opened
    for ctx in opened.values():
        ctx.close()
