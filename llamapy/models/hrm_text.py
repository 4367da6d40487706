"""hrm_text: two stacks of layers, a low and a high one, gone through in cycles: several times the
low one, then the high one, each pass with a cache of its own. Norms have no weights, attention is
gated. The blocks of the file are the low stack's, then the high stack's."""

from __future__ import annotations

from dataclasses import replace

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.bounded import Keys, count, wrong
from llamapy.loader.hparams import HParams, read_scales
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import RMS, Attn, Decoder
from llamapy.models.blocks.decoder import decoder_tensors, layer
from llamapy.models.blocks.ends import embed, only_outputs, output
from llamapy.models.blocks.norm import norm
from llamapy.models.builder import Builder

HANDLES = frozenset({"embedding_scale"})
DECODER = Decoder(weights=False, attn=Attn(gate="sigmoid"))


def hparams(file: Keys, hp: HParams) -> HParams:
    n, high, low = (
        count(file, f"hrm_text.hrm.{key}", least=1)
        for key in ("layers_per_stack", "h_cycles", "l_cycles")
    )
    if hp.n_layer != n * high * (low + 1):
        raise wrong(file, "hrm_text.block_count", f"{n * high * (low + 1)} passes", hp.n_layer)
    if file.get_bool("hrm_text.hrm.prefix_lm", False):
        raise wrong(file, "hrm_text.hrm.prefix_lm", "false: causal attention alone", True)
    one_pass = (*(0,) * low, 1)  # which stack each pass of a cycle goes through
    weights = tuple(stack * n + i for stack in one_pass * high for i in range(n))
    return replace(read_scales(file, hp), layer_weights=weights)


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    blocks = replace(hp, n_layer=max(hp.layer_weights) + 1)
    start = TensorSpec("hrm.z_l_init", (hp.n_embd,), 0, "layer", op="add")
    return [*decoder_tensors(DECODER, blocks, has), start]


def build(g: Builder) -> None:
    weights = g.hp.layer_weights
    n = (max(weights) + 1) // 2
    high = embed(g, scale=g.hp.embedding_scale)
    low: Tensor = g.weight("hrm.z_l_init")  # [n_embd], the same for all tokens
    for il in range(0, g.hp.n_layer, n):
        x = make("add", high, low)
        for i in range(il, il + n):
            x = layer(g, DECODER, i, x, last=False)
        x = norm(g, RMS, x, "", f"stack_norm-{il}")
        low, high = (low, x) if weights[il] else (x, high)
    output(g, only_outputs(g, high)[0])
