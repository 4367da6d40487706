"""Small T5 models of random weights. tests/data/t5_logits.npz holds the reference's results: `text`
is what was encoded; by name, every fourth row of logits of `said`, decoded in one batch with a
cache in f32; `encoder-` and the name: every eighth token as the encoder alone has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import random_model

KEYS: dict[str, Any] = {
    "embedding_length": 64,
    "block_count": 3,
    "feed_forward_length": 96,
    "attention.head_count": 4,
    "attention.key_length": 24,
    "attention.value_length": 24,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "attention.relative_buckets_count": 16,
    "decoder_start_token_id": 7,
}
# name: further keys, ends of names of optional tensors. `flan` has gates, a decoder of another
# depth, an output matrix of its own and a table of its own in the second layer.
MODELS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "t5": ({}, ()),
    "flan": (
        {"decoder_block_count": 2, "attention.relative_buckets_count": 32},
        ("ffn_gate.weight", "blk.1.attn_rel_b.weight", "output.weight"),
    ),
}


def write(path: Path, name: str, arch: str = "t5") -> Path:
    keys, optional = MODELS[name]
    return random_model.write(
        path,
        arch,
        {**KEYS, **keys},
        has=lambda name: False,
        optional=optional,
        scaled={"attn_rel_b.weight": 4.0, "attn_q.weight": 0.3},
    )
