"""More models that `random_model` writes, of architectures that carry states: heads that share,
layers and numbers that their reference files do not have. tests/data/recurrent_logits.npz holds the
reference's logits of the first tokens, made as in random_models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import random_rwkv6
import random_rwkv7
from random_models import SMALL, RandomModel

ATTENTION = {k: v for k, v in SMALL.items() if k != "attention.sliding_window"}
GDN: dict[str, Any] = {
    **ATTENTION,
    "block_count": 4,
    "full_attention_interval": 2,
    "rope.dimension_count": 16,
    "ssm.inner_size": 256,
    "ssm.conv_kernel": 4,
    "ssm.state_size": 64,
    "ssm.time_step_rank": 4,
    "ssm.group_count": 2,
}
MOE: dict[str, Any] = {
    "expert_count": 4,
    "expert_used_count": 2,
    "expert_feed_forward_length": 48,
    "expert_shared_feed_forward_length": 32,
}
SECTIONS = {"rope.dimension_sections": [3, 3, 2, 0]}
NGRAMS: dict[str, Any] = {
    "attention.indexer.head_count": 2,
    "attention.indexer.key_length": 32,
    "attention.indexer.top_k": 64,
    "hyper_connection.count": 3,
    "hyper_connection.low_rank": 8,
    "ple.layers": ("u32", [2]),
    "ple.ngram_size": 3,
    "ple.heads_per_ngram": 2,
    "ple.conv_kernel": 4,
    "ple.eos_token_id": 38,
    "embedding_length_per_layer_input": 16,
    "ple.layer_multipliers": ("u64", [1000003, 30011, (1 << 63) + 9]),
    "ple.head_offsets": ("u64", [0, 101, 204, 311]),
    "ple.head_vocab_sizes": ("u64", [101, 103, 107, 109]),
}
INDEXER = {"q_proj": (64, 64), "k_proj": (64, 32), "q_norm": (32,), "k_norm": (32,)}
UNREAD = {f"blk.{il}.indexer.{n}.weight": ne for il in (1, 3) for n, ne in INDEXER.items()}
RWKV: dict[str, Any] = {
    "embedding_length": 128,
    "feed_forward_length": 96,
    "block_count": 3,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "attention.head_count": 0,
    "wkv.head_size": 32,
    "token_shift_count": 1,
}
RANKS = {"decay": 24, "iclr": 16, "value_residual_mix": 8, "gate": 20}
# The reference's own kernel wants heads of 64.
ARWKV7: dict[str, Any] = {
    **RWKV,
    "wkv.head_size": 64,
    **{f"attention.{k}_lora_rank": n for k, n in RANKS.items()},
}
QRWKV6: dict[str, Any] = {**RWKV, "attention.head_count_kv": 2}
QRWKV6 |= {"time_mix_extra_dim": 16, "time_decay_extra_dim": 24}
LN = ("time_mix_ln.weight", "time_mix_ln.bias")
BIASES = tuple(f"time_mix_{name}.bias" for name in ("receptance", "key", "value"))
GATE, FORGET = ("ffn_gate_inp_shexp.weight",), {"ssm_a": -1.0}


def _without(*ends: str) -> Callable[[str], bool]:
    ends = (*ends, "ssm_in.weight", "ffn_up_exps.weight", "position_embd.weight")
    behind = ("cls.", "dense_")
    return lambda n: n.endswith(".weight") and not n.endswith(ends) and not n.startswith(behind)


@dataclass(frozen=True)
class Written:
    write: Callable[[Path], Path]


APART, JOINED = _without("ssm_ba.weight"), _without("ssm_beta.weight", "ssm_alpha.weight")
UNGATED = _without("time_mix_g1.weight")
MODELS: dict[str, RandomModel | Written] = {
    "arwkv7": RandomModel("arwkv7", ARWKV7, APART, ("output.weight", *LN)),
    "arwkv7-bare": RandomModel(
        "arwkv7", ARWKV7, _without("time_mix_g1.weight"), ("output.weight",)
    ),
    "minimax-01": RandomModel(
        "minimax-01",
        {
            **ATTENTION,
            "block_count": 4,
            "full_attention_interval": 2,
            "residual_scale": 1.5,
            "attention.head_count": 6,
            "attention.head_count_kv": 3,
            "expert_count": 4,
            "expert_used_count": 2,
        },
        _without("attn_qkv.weight", "ffn_gate_up_exps.weight"),
    ),
    "qwen35": RandomModel("qwen35", {**GDN, **SECTIONS}, APART, (), FORGET),
    "qwen35moe": RandomModel("qwen35moe", {**GDN, **SECTIONS, **MOE}, APART, GATE, FORGET),
    "qwen3next": RandomModel("qwen3next", {**GDN, **MOE}, JOINED, GATE, FORGET),
    "qwen4exp": RandomModel(
        "qwen4exp", {**GDN, **SECTIONS, **MOE, **NGRAMS}, APART, GATE, FORGET, unread=UNREAD
    ),
    "rwkv6qwen2": RandomModel("rwkv6qwen2", QRWKV6, APART, ("output.weight", *BIASES)),
    "rwkv6": Written(random_rwkv6.write),
    "rwkv7": Written(random_rwkv7.write),
}
