"""jamba: layers without heads have a selective state space in attention's place, attention has no
rope; the layers with experts are those whose router is in the file."""

from __future__ import annotations

from collections.abc import Sequence

from llamapy.graph.tensor import Tensor
from llamapy.kv.api import States
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts, with_ssm
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import Attn, Decoder, Moe, Part, headless
from llamapy.models.blocks.ffn import ffn, ffn_tensors
from llamapy.models.blocks.mamba import MAMBA, mamba_state
from llamapy.models.blocks.moe import moe_ffn, moe_tensors
from llamapy.models.builder import Builder
from llamapy.models.caches import without_heads

HANDLES = frozenset({"attention.head_count_kv", "expert_count"})
ROUTER = "ffn_gate_inp.weight"


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_ssm(file, with_experts(file, hp, normalise=False))


def states(hp: HParams) -> Sequence[States]:
    return without_heads(hp, mamba_state(hp))


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    chooses = hp.experts.n and has(f"blk.{il}.{ROUTER}")
    return (moe_tensors if chooses else ffn_tensors)(hp, il, "swiglu", has)


def _build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    dense = g.maybe_layer(il, ROUTER) is None
    return ffn(g, il, x, "swiglu") if dense else moe_ffn(g, il, x, Moe())


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        attn=Attn(rope=None),
        mixer=headless(MAMBA),
        ffn=lambda hp, il: Part(_tensors, _build),
    )
