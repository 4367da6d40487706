"""llama4: chunked windows; every fourth layer sees all, has no rope, and a temperature by position;
q and k normed after the rope; experts in every n-th layer, their weight on what they read."""

from __future__ import annotations

from dataclasses import replace

from llamapy.graph.tensor import Tensor
from llamapy.kv.api import CacheShape
from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams, read_window, with_experts
from llamapy.models.blocks import BARE, NORMAL, Attn, Decoder, Moe
from llamapy.models.builder import Builder
from llamapy.models.caches import attention_cache

HANDLES = frozenset({"expert_count", "attention.sliding_window"})
N_CHUNK = 8192
N_LAYER_128E, N_EXPERT_128E = 48, 128  # the one size without norms of q and k


def hparams(file: Keys, hp: HParams) -> HParams:
    step = count(file, "llama4.interleave_moe_layer_step", least=1)
    hp = with_experts(file, hp, gating="sigmoid", normalise=False, step=step, shared=True)
    if file.keys.get("llama4.attention.sliding_window") == 0:
        return hp
    return replace(read_window(file, hp, 4, default=N_CHUNK), n_swa=N_CHUNK)


def _turns(hp: HParams, il: int) -> bool:
    return not hp.n_swa or (il + 1) % 4 != 0


def _normed(hp: HParams, il: int) -> bool:
    bare = hp.n_layer == N_LAYER_128E and hp.experts.n == N_EXPERT_128E
    return _turns(hp, il) and not bare


def _temperature(g: Builder, il: int) -> Tensor | None:
    return None if _turns(g.hp, il) else g.temperature(0.1, N_CHUNK, 1.0)


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        attn=Attn(
            rope=NORMAL,
            rope_at=_turns,
            rope_factors=True,
            qk_norm=BARE,
            norm_last=True,
            norm_at=_normed,
            q_scale=_temperature,
        ),
        moe=Moe(choose_by="logits", weight_first=True),
    )


def cache(hp: HParams) -> CacheShape:
    return replace(attention_cache(hp), window="chunked")
