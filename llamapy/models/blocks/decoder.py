"""The decoder that most architectures are: a stack of layers, each attention (or another mixer) and
feed-forward with norms around them. `Decoder` says what tells one from another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.attn import BARE, Attn, attention, attention_tensors, factor_tensors
from llamapy.models.blocks.chosen import refuse_choice
from llamapy.models.blocks.ends import NONE, embed, end_tensors, head, only_outputs
from llamapy.models.blocks.ffn import ffn, ffn_tensors
from llamapy.models.blocks.moe import Moe, moe_ffn, moe_tensors
from llamapy.models.blocks.norm import RMS, norm, norm_tensors
from llamapy.models.builder import Builder


@dataclass(frozen=True, slots=True)
class Part:
    """What stands in the place of attention or feed-forward in some layers: its tensors, and
    `build(g, il, x, layer_input)` of x [n_embd, n_tokens], normed, that gives the same shape. None:
    the layer goes without, and without the norm before it."""

    tensors: Callable[[HParams, int, Has], list[TensorSpec]]
    build: Callable[[Builder, int, Tensor, Tensor], Tensor] | None


NOTHING = Part(lambda hp, il, has: [], None)
PartAt = Callable[[HParams, int], Part | None]


def headless(part: Part) -> PartAt:
    """In attention's place in layers without heads of K and V."""
    return lambda hp, il: None if hp.n_head_kv[il] else part


@dataclass(frozen=True, slots=True)
class Decoder:
    """norm: of which kind all norms are; their biases are what the file has
    attn_norm, ffn_norm: tensors of the norms before attention and feed-forward, '' for none. In a
        parallel layer without a second norm both read the first one's result
    first_norm: whether the first layer has the former in any case, or only where the file has it
    post_attn_norm, post_ffn_norm: norms of what attention and feed-forward give, before it is added
    weights: whether norms have weights at all
    parallel: feed-forward reads the layer's input, not what attention made of it
    attn: attention; `mixer(hp, il)`: what takes its place in layer il, None for attention
    act: of the dense feed-forward; moe: what the layers with experts do
    ffn(hp, il): what takes the place of either feed-forward in layer il
    embd_norm: a norm of the embeddings, BARE for one without weight; output_norm: of the end
    post_eps: of the norms of what attention and feed-forward give, 0: as of the others
    never: ids that are never the answer
    divide_logits: the logit scale divides instead of multiplying
    """

    norm: str = RMS
    attn_norm: str = "attn_norm"
    first_norm: bool = True
    ffn_norm: str = "ffn_norm"
    post_attn_norm: str = ""
    post_ffn_norm: str = ""
    weights: bool = True
    parallel: bool = False
    attn: Attn = field(default_factory=Attn)
    mixer: PartAt | None = None
    act: str = "swiglu"
    moe: Moe = field(default_factory=Moe)
    ffn: PartAt | None = None
    embd_norm: str = ""
    post_eps: float = 0.0
    output_norm: str = "output_norm"
    never: range = NONE
    divide_logits: bool = False


# Norms around attention and feed-forward, and norms behind them only.
SANDWICH = Decoder(post_attn_norm="post_attention_norm", post_ffn_norm="post_ffw_norm")
POST_NORMED = replace(SANDWICH, attn_norm="", ffn_norm="")


def _part(at: PartAt | None, hp: HParams, il: int) -> Part | None:
    return at(hp, il) if at else None


def decoder_tensors(d: Decoder, hp: HParams, has: Has) -> list[TensorSpec]:
    """What a file must and may hold."""
    specs = end_tensors(hp, norm_name=d.output_norm if d.weights else "")
    if d.embd_norm not in ("", BARE) and d.weights:
        specs += norm_tensors(hp, d.embd_norm, None, role="input")
    if has("position_embd.weight") and d.attn.rope is None:
        ne = (hp.n_embd, hp.n_ctx_train)
        specs.append(TensorSpec("position_embd.weight", ne, None, "input", op="get_rows"))
    if d.attn.rope_factors:
        specs += factor_tensors(hp)
    for il in range(hp.n_layer):
        mixer, other = _part(d.mixer, hp, il), _part(d.ffn, hp, il)
        before = d.attn_norm if not mixer or mixer.build else ""
        if il == 0 and not d.first_norm and not has(f"blk.0.{before}.weight"):
            before = ""
        between = d.ffn_norm if not other or other.build else ""
        for name in (before, between, d.post_attn_norm, d.post_ffn_norm):
            if name and d.weights:
                specs += norm_tensors(hp, name, il, has=has)
        specs += mixer.tensors(hp, il, has) if mixer else attention_tensors(hp, il, d.attn, has)
        if other:
            specs += other.tensors(hp, il, has)
        elif hp.experts.has(il):
            specs += moe_tensors(hp, il, d.moe.act, has)
        else:
            specs += ffn_tensors(hp, il, d.act, has)
    return specs


def _normed(
    g: Builder, d: Decoder, x: Tensor, weight: str, name: str, il: int, eps: float = 0.0
) -> Tensor:
    return norm(g, d.norm, x, weight if d.weights else "", name, il, eps) if weight else x


def _residual(g: Builder, h: Tensor, x: Tensor) -> Tensor:
    if g.hp.residual_scale != 1.0:
        h = make("scale", h, scale=g.hp.residual_scale, bias=0.0)
    return make("add", h, x)


def feed_forward(g: Builder, d: Decoder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    """The layer's feed-forward, of whichever kind. x [n_embd, n_tokens] -> the same"""
    other = _part(d.ffn, g.hp, il)
    if other:
        assert other.build
        return other.build(g, il, x, layer_input)
    if not g.hp.experts.has(il):
        return ffn(g, il, x, d.act)
    return moe_ffn(g, il, x, d.moe, layer_input if d.moe.raw_router else x)


def mixed(g: Builder, d: Decoder, il: int, normed: Tensor, layer_input: Tensor) -> Tensor:
    """What attention, or what stands in its place, makes of the normed input."""
    mixer = _part(d.mixer, g.hp, il)
    if mixer and mixer.build:
        return mixer.build(g, il, normed, layer_input)
    return attention(g, il, normed, d.attn)


def _mix(g: Builder, d: Decoder, il: int, x: Tensor) -> tuple[Tensor | None, Tensor]:
    """The same of the layer's input, and the latter's norm; nothing for a layer without."""
    mixer = _part(d.mixer, g.hp, il)
    if mixer and not mixer.build:
        return None, x
    bare = il == 0 and not d.first_norm and g.maybe_layer(0, f"{d.attn_norm}.weight") is None
    normed = x if bare else _normed(g, d, x, d.attn_norm, "attn_norm", il)
    return mixed(g, d, il, normed, x), normed


def layer(g: Builder, d: Decoder, il: int, x: Tensor, *, last: bool) -> Tensor:
    """One layer. x [n_embd, n_tokens] -> the same, the wanted rows of it after the last one."""
    h, normed = _mix(g, d, il, x)
    if last:  # [n_embd, n_outputs]
        x, normed = only_outputs(g, x, normed)
        h = None if h is None else only_outputs(g, h)[0]
    if h is not None:
        h = _normed(g, d, h, d.post_attn_norm, "attn_post_norm", il, d.post_eps)
    if d.parallel and h is not None:
        into = _normed(g, d, x, d.ffn_norm, "ffn_norm", il) if d.ffn_norm else normed
        h = make("add", feed_forward(g, d, il, into, x), h)
        return g.name(_residual(g, h, x), "l_out", il)
    mid = x if h is None else g.name(_residual(g, h, x), "ffn_inp", il)
    g.mid = mid
    other = _part(d.ffn, g.hp, il)
    if other and not other.build:
        return mid
    h = feed_forward(g, d, il, _normed(g, d, mid, d.ffn_norm, "ffn_norm", il), x)
    h = _normed(g, d, h, d.post_ffn_norm, "ffn_post_norm", il, d.post_eps)
    return g.name(_residual(g, h, mid), "l_out", il)


def build_decoder(g: Builder, d: Decoder, x: Tensor | None = None) -> None:
    """The whole graph, from embeddings x [n_embd, n_tokens] if they are not those of the tokens."""
    hp = g.hp
    refuse_choice(g)
    x = embed(g, scale=hp.embedding_scale) if x is None else x  # [n_embd, n_tokens]
    if d.embd_norm:
        named = d.weights and d.embd_norm != BARE
        x = norm(g, d.norm, x, d.embd_norm if named else "", "inp_norm")
    for il in range(hp.n_layer):
        x = layer(g, d, il, x, last=il == hp.n_layer - 1)
    scale = 1.0 / hp.logit_scale if d.divide_logits else hp.logit_scale
    head(g, x, d.norm, scale, d.output_norm if d.weights else "", d.never)
