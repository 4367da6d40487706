"""mistral3: llama, in larger members with a temperature by position, and YaRN whose stretch of
vectors the file may temper."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.graph.tensor import Tensor
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models import llama
from llamapy.models.blocks import Decoder
from llamapy.models.builder import Builder

HANDLES = llama.HANDLES | {
    "attention.temperature_scale",
    "rope.scaling.yarn_log_multiplier",
}


def hparams(file: Keys, hp: HParams) -> HParams:
    multiplier = file.get_float("mistral3.rope.scaling.yarn_log_multiplier", 0.0)
    stretch = 1.0 - 0.1 * multiplier * math.log(hp.rope.freq_scale)
    rope = replace(hp.rope, attn_factor=hp.rope.attn_factor / stretch)
    scale = file.get_float("mistral3.attention.temperature_scale", 0.0)
    return llama.hparams(file, replace(hp, rope=rope, temperature=scale))


def _temperature(g: Builder, il: int) -> Tensor:
    return g.temperature(g.hp.temperature, g.hp.rope.n_ctx_orig, 0.0)


def decoder(hp: HParams) -> Decoder:
    d = llama.decoder(hp)
    return replace(d, attn=replace(d.attn, q_scale=_temperature)) if hp.temperature else d
