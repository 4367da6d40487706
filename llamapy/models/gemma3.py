"""gemma3: sandwich norms, norm on q and k, window layers with a rope base of their own, geglu.

Five window layers, then a full one; the embedding is scaled by sqrt(n_embd) (the file's norm
weights already hold the `1 +` of the model card).
"""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.loader.bounded import Keys, count, positive_real
from llamapy.loader.hparams import HParams, swa_pattern
from llamapy.models.blocks import HEAD, SANDWICH, Attn, Decoder

HANDLES = frozenset({"attention.sliding_window"})
N_LAYER_27B = 62  # the one size that scales q by its width per head instead of the head size


def hparams(file: Keys, hp: HParams) -> HParams:
    n_swa = count(file, "gemma3.attention.sliding_window", 0)
    base = positive_real(file, "gemma3.rope.freq_base_swa", 10000.0)
    scale = hp.n_embd // hp.n_head[0] if hp.n_layer == N_LAYER_27B else hp.n_embd_head_k
    return replace(
        hp,
        n_swa=n_swa,
        is_swa=swa_pattern(file, hp, 6) if n_swa else (False,) * hp.n_layer,
        rope_swa=replace(hp.rope, freq_base=base, freq_scale=1.0, scaling="none", ext_factor=0.0),
        attention_scale=hp.attention_scale or 1.0 / math.sqrt(scale),
        embedding_scale=math.sqrt(hp.n_embd),
    )


def decoder(hp: HParams) -> Decoder:
    return replace(
        SANDWICH,
        attn=Attn(qk_norm=HEAD),
        act="geglu",
    )
