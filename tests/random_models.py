"""The models that `random_model` writes. tests/data/random_logits.npz holds the reference's logits
of `tokens` for each: made in one batch with a cache in f32, as those of the reference models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import random_model

from llamapy.loader.spec import apart


@dataclass(frozen=True)
class RandomModel:
    arch: str
    keys: dict[str, Any]
    has: Callable[[str], bool]
    optional: tuple[str, ...] = ()
    scaled: dict[str, float] = field(default_factory=dict)
    unread: dict[str, tuple[int, ...]] = field(default_factory=dict)
    other: tuple[str, ...] = ()
    seed: int = 1  # with another one, a token's second and third expert may be too near to tell

    def write(self, path: Path) -> Path:
        return random_model.write(
            path,
            self.arch,
            self.keys,
            has=self.has,
            optional=self.optional,
            scaled=self.scaled,
            seed=self.seed,
            unread=self.unread,
            other=self.other,
        )


def _merged(name: str) -> bool:
    """Experts' gate and up in one matrix."""
    merged = name.endswith("ffn_gate_up_exps.weight")
    return merged or (apart(name) and not name.endswith("ffn_up_exps.weight"))


SMALL: dict[str, Any] = {
    "embedding_length": 64,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "attention.key_length": 32,
    "attention.value_length": 32,
    "rope.dimension_count": 32,
    "rope.freq_base": 10000.0,
    "attention.sliding_window": 16,
}
GEMMA4: dict[str, Any] = {
    **SMALL,
    "block_count": 6,
    "attention.sliding_window_pattern": [True, True, False] * 2,
    "attention.shared_kv_layers": 3,
    "attention.key_length_swa": 16,
    "attention.value_length_swa": 16,
    "rope.dimension_count_swa": 16,
    "rope.freq_base_swa": 1000.0,
    "embedding_length_per_layer_input": 16,
}
# Sharp attention and many layers blow up what half-precision tables of GELU leave.
SOFT = {"attn_q_norm.weight": 0.1}
MODELS: dict[str, RandomModel] = {
    "gemma4-dense": RandomModel(
        "gemma4",
        GEMMA4,
        apart,
        ("attn_v.weight", "rope_freqs.weight", "layer_output_scale.weight"),
        SOFT,
    ),
    "gemma4-moe": RandomModel(
        "gemma4",
        {
            **GEMMA4,
            "attention.shared_kv_layers": 0,
            "embedding_length_per_layer_input": 0,
            "expert_count": 4,
            "expert_used_count": 2,
            "expert_feed_forward_length": 48,
        },
        _merged,
        ("rope_freqs.weight", "ffn_down_exps.scale", "0.attn_v.weight", "1.attn_v.weight"),
        SOFT,
        seed=2,
    ),
    "gemma3n-dense": RandomModel(
        "gemma3n",
        {
            **SMALL,
            "block_count": 22,
            "attention.sliding_window_pattern": 5,
            "embedding_length_per_layer_input": 256,
        },
        apart,
        ("attn_v.weight",),
        {
            **SOFT,
            "ffn_gate.weight": 30.0,
            "inp_gate.weight": 30.0,
            "post_attention_norm.weight": 0.3,
            "post_ffw_norm.weight": 0.3,
        },
    ),
}
