"""T5's encoder and decoder (Raffel et al., arXiv 1910.10683). Scores are not scaled, and have a
bias by distance: one table for all layers of a stack, in its first layer, unless others have their
own. Cross attention, over what the encoder made of the text, has none."""

from __future__ import annotations

from llamapy.graph.ops import make, reshape
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models import inputs
from llamapy.models.blocks.attn import attend, store
from llamapy.models.blocks.ends import embed, only_outputs
from llamapy.models.blocks.norm import RMS, norm
from llamapy.models.builder import Builder

REACH = 128  # from here on all distances share a bucket
ENC, DEC = "enc", "dec"


def bucket(far: int, n_buckets: int, *, both: bool) -> int:
    """Of a key `far` places after its query (negative: before it). Half of the buckets are for one
    distance each, the other half grow with its logarithm. `both`: keys after the query have half of
    all buckets, else they count as distance 0."""
    n = n_buckets // 2 if both else n_buckets
    first = n if both and far > 0 else 0
    d = abs(far) if both else max(-far, 0)
    exact = n // 2
    if d < exact:
        return first + d
    # The largest k with (d / exact) >= (REACH / exact)^(k / steps), in whole numbers.
    steps = n - exact
    reached = [i for i in range(1, steps) if d**steps * exact**i >= REACH**i * exact**steps]
    return first + exact + len(reached)


class _Biases:
    """Tables by distance [n_head, 2 * REACH + 1] of a stack, each made once."""

    def __init__(self, g: Builder, stack: str) -> None:
        self._g, self._stack = g, stack
        n, both = g.hp.stacks.n_buckets, stack == ENC
        by_distance = [bucket(far, n, both=both) for far in range(-REACH, REACH + 1)]
        self._buckets = g.add_input(inputs.numbers(f"buckets_{stack}", by_distance))
        self._made: dict[int, Tensor] = {}

    def of(self, i: int) -> Tensor:
        name = f"{self._stack}.blk.{{}}.attn_rel_b.weight"
        i = i if self._g.maybe(name.format(i)) is not None else 0
        if i not in self._made:
            table = make("get_rows", self._g.weight(name.format(i)), self._buckets)
            self._made[i] = self._g.name(table, f"bias_{self._stack}", i)
        return self._made[i]


def _matrix(g: Builder, pre: str, name: str, x: Tensor) -> Tensor:
    return g.name(make("mul_mat", g.weight(f"{pre}.{name}.weight"), x), f"{pre}.{name}")


def _heads(g: Builder, pre: str, name: str, size: int, x: Tensor) -> Tensor:
    """[n_embd, n_tokens] -> [size, n_head, n_tokens]"""
    rows = _matrix(g, pre, name, x)
    return reshape(rows, size, rows.ne[0] // size, x.ne[1])


def _self_attention(g: Builder, pre: str, il: int, x: Tensor, bias: Tensor) -> Tensor:
    """`il`: of the memory."""
    hp = g.hp
    x = norm(g, RMS, x, f"{pre}.attn_norm", f"{pre}.attn_norm")
    q = _heads(g, pre, "attn_q", hp.n_embd_head_k, x)
    k = _heads(g, pre, "attn_k", hp.n_embd_head_k, x)
    v = _heads(g, pre, "attn_v", hp.n_embd_head_v, x)
    g.expand(q, k, v)
    store(g, il, k, v)
    return _matrix(g, pre, "attn_o", attend(g, il, q, bias))


def _cross_attention(g: Builder, pre: str, il: int, x: Tensor) -> Tensor:
    x = norm(g, RMS, x, f"{pre}.cross_attn_norm", f"{pre}.cross_attn_norm")
    q = _heads(g, pre, "cross_attn_q", g.hp.n_embd_head_k, x)
    return _matrix(g, pre, "cross_attn_o", attend(g, il, q))


def _feed_forward(g: Builder, pre: str, x: Tensor) -> Tensor:
    """With a gate where the file has its matrix, and added to x."""
    h = norm(g, RMS, x, f"{pre}.ffn_norm", f"{pre}.ffn_norm")
    up = _matrix(g, pre, "ffn_up", h)
    if g.maybe(f"{pre}.ffn_gate.weight") is None:
        h = make("relu", up)
    else:
        gate = _matrix(g, pre, "ffn_gate", h)
        g.expand(gate, up)
        h = make("geglu", gate, up)
    return g.name(make("add", _matrix(g, pre, "ffn_down", h), x), f"{pre}.l_out")


def encode(g: Builder, first: int, *, all_rows: bool) -> Tensor:
    """What the encoder makes of its tokens, or of the wanted ones: [n_embd, n]. `first`: its first
    layer in the memory."""
    x, biases = embed(g), _Biases(g, ENC)
    for i in range(g.hp.stacks.n_enc):
        pre = f"{ENC}.blk.{i}"
        h = _self_attention(g, pre, first + i, x, biases.of(i))
        if i == g.hp.stacks.n_enc - 1 and not all_rows:
            h, x = only_outputs(g, h, x)
        x = _feed_forward(g, pre, make("add", h, x))
    return norm(g, RMS, x, "enc.output_norm", "result_enc")


def keep(g: Builder, text: Tensor, first: int) -> None:
    """Store K and V of an encoded text for cross attention of every layer, `first` being that of
    the first one in the memory."""
    hp = g.hp
    for i in range(hp.stacks.n_dec):
        pre = f"{DEC}.blk.{i}"
        k = _heads(g, pre, "cross_attn_k", hp.n_embd_head_k, text)
        v = _heads(g, pre, "cross_attn_v", hp.n_embd_head_v, text)
        g.expand(k, v)
        store(g, first + i, k, v)


def decode(g: Builder, first: int, crossed: int) -> Tensor:
    """The wanted rows of what the decoder makes of its tokens, before the last norm. [n_embd,
    n_outputs]. `first`, `crossed`: first layers in the memory, of what it makes itself and of
    texts."""
    x, biases = embed(g), _Biases(g, DEC)
    for i in range(g.hp.stacks.n_dec):
        pre = f"{DEC}.blk.{i}"
        x = make("add", _self_attention(g, pre, first + i, x, biases.of(i)), x)
        h = _cross_attention(g, pre, crossed + i, x)
        if i == g.hp.stacks.n_dec - 1:
            h, x = only_outputs(g, h, x)
        x = _feed_forward(g, pre, make("add", h, x))
    return x


def stack_tensors(hp: HParams, stack: str) -> list[TensorSpec]:
    """All of one stack, its last norm included."""
    specs = [TensorSpec(f"{stack}.output_norm.weight", (hp.n_embd,), None, "output", op="mul")]
    n, first = (hp.stacks.n_enc, 0) if stack == ENC else (hp.stacks.n_dec, hp.stacks.n_enc)
    for i in range(n):
        specs += _layer_tensors(hp, f"{stack}.blk.{i}.", first + i, crosses=stack == DEC)
    return specs


def _layer_tensors(hp: HParams, pre: str, il: int, *, crosses: bool) -> list[TensorSpec]:
    n, n_ff, n_head, n_kv = hp.n_embd, hp.n_ff[il], hp.n_head[il], hp.n_head_kv[il]
    heads = {
        "q": (n, hp.n_embd_head_k * n_head),
        "k": (n, hp.n_embd_head_k * n_kv),
        "v": (n, hp.n_embd_head_v * n_kv),
        "o": (hp.n_embd_head_v * n_head, n),
    }
    table = (n_head, hp.stacks.n_buckets)
    owns = pre.endswith(".blk.0.")
    specs = [
        TensorSpec(f"{pre}attn_rel_b.weight", table, il, "layer", owns, "get_rows"),
        TensorSpec(f"{pre}ffn_gate.weight", (n, n_ff), il, "layer", required=False),
        TensorSpec(f"{pre}ffn_up.weight", (n, n_ff), il, "layer"),
        TensorSpec(f"{pre}ffn_down.weight", (n_ff, n), il, "layer"),
    ]
    for kind in ("attn", "cross_attn") if crosses else ("attn",):
        specs += [TensorSpec(f"{pre}{kind}_{x}.weight", ne, il, "layer") for x, ne in heads.items()]
    for name in (
        ("attn_norm", "cross_attn_norm", "ffn_norm") if crosses else ("attn_norm", "ffn_norm")
    ):
        specs.append(TensorSpec(f"{pre}{name}.weight", (n,), il, "layer", op="mul"))
    return specs
