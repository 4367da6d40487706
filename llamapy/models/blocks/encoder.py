"""BERT's encoder (Devlin et al., arXiv 1810.04805): every token sees all of its text, and norms
come after what attention and feed-forward have been added to, not before them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models import inputs
from llamapy.models.blocks.attn import Attn, attention, attention_tensors
from llamapy.models.blocks.ends import embed, only_outputs, output
from llamapy.models.blocks.ffn import ffn, ffn_tensors
from llamapy.models.blocks.moe import Moe, moe_ffn, moe_tensors
from llamapy.models.blocks.norm import LAYER, norm, norm_tensors
from llamapy.models.builder import Builder

AFTER_ATTN, AGAIN, AFTER_FFN = "attn_output_norm", "attn_norm_2", "layer_output_norm"


def _is_gated(g: Builder, il: int) -> bool:
    """Whether up is one of two matrices, or both in one."""
    up = g.layer(il, "ffn_up.weight")
    return up.ne[1] != g.hp.n_ff[il] or g.maybe_layer(il, "ffn_gate.weight") is not None


@dataclass(frozen=True, slots=True)
class Encoder:
    """act: of the feed-forward, or `gated` where the file's is; learned: positions are learned
    moe: what layers with experts do
    again: layers may add their input a second time to what attention made, and norm it again
    """

    attn: Attn = field(default_factory=lambda: Attn(rope=None))
    act: str = "gelu"
    gated: str = ""
    learned: bool = False
    moe: Moe = field(default_factory=lambda: Moe(act="gelu"))
    again: bool = False


def encoder_tensors(e: Encoder, hp: HParams, has: Has) -> list[TensorSpec]:
    """What a file must and may hold."""
    specs = [
        TensorSpec("token_embd.weight", (hp.n_embd, hp.n_vocab), None, "input", op="get_rows"),
        *norm_tensors(hp, "token_embd_norm", None, role="input"),
    ]
    if hp.n_token_types:
        types = (hp.n_embd, hp.n_token_types)
        specs.append(TensorSpec("token_types.weight", types, None, "input", False, "get_rows"))
    if e.learned:
        places = (hp.n_embd, hp.n_ctx_train)
        specs.append(TensorSpec("position_embd.weight", places, None, "input", op="get_rows"))
    for il in range(hp.n_layer):
        specs += attention_tensors(hp, il, e.attn, has)
        specs += norm_tensors(hp, AFTER_ATTN, il) + norm_tensors(hp, AFTER_FFN, il)
        if e.again and has(f"blk.{il}.{AGAIN}.weight"):
            specs += norm_tensors(hp, AGAIN, il)
        specs += _ffn_tensors(e, hp, il, has)
    return specs


def _ffn_tensors(e: Encoder, hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    if hp.experts.has(il):
        return moe_tensors(hp, il, e.moe.act, has)
    if e.gated and has(f"blk.{il}.ffn_gate.weight"):
        return ffn_tensors(hp, il, e.gated, has)
    specs = ffn_tensors(hp, il, e.act, has)
    if not e.gated:
        return specs
    both = {f"blk.{il}.ffn_up.weight": (hp.n_embd,), f"blk.{il}.ffn_up.bias": ()}
    return [
        replace(s, or_ne=(*both[s.name], 2 * hp.n_ff[il])) if s.name in both else s for s in specs
    ]


def _begin(g: Builder) -> Tensor:
    """Tokens, all of the first type, and positions where they are learned. [n_embd, n_tokens]"""
    x = embed(g)
    types = g.maybe("token_types.weight")
    if types is not None:
        x = make("add", x, make("get_rows", types, g.add_input(inputs.first_row())))
    return norm(g, LAYER, x, "token_embd_norm", "inp_norm")


def _layer(g: Builder, e: Encoder, il: int, x: Tensor, *, last: bool) -> Tensor:
    """[n_embd, n_tokens] -> the same, the wanted rows of it after the last one."""
    h = attention(g, il, x, e.attn)
    if last:
        h, x = only_outputs(g, h, x)
    mid = norm(g, LAYER, make("add", h, x), AFTER_ATTN, "attn_out_norm", il)
    if g.maybe_layer(il, f"{AGAIN}.weight") is not None:
        mid = norm(g, LAYER, make("add", mid, x), AGAIN, "attn_norm_2", il)
    if g.hp.experts.has(il):
        h = moe_ffn(g, il, mid, e.moe)
    else:
        h = ffn(g, il, mid, e.gated if e.gated and _is_gated(g, il) else e.act)
    return norm(g, LAYER, make("add", h, mid), AFTER_FFN, "l_out", il)


def build_encoder(g: Builder, e: Encoder) -> None:
    """The whole graph."""
    x = _begin(g)
    for il in range(g.hp.n_layer):
        x = _layer(g, e, il, x, last=il == g.hp.n_layer - 1)
    output(g, x)
