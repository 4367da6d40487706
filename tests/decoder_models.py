"""More models that `random_model` writes: decoders for which the reference set has no file.
tests/data/decoder_logits.npz holds the reference's logits, made as in random_models, of the tokens
at ROWS."""

from __future__ import annotations

from typing import Any

from random_models import SMALL, RandomModel, apart

ROWS = slice(3, None, 8)
PLAIN: dict[str, Any] = {k: v for k, v in SMALL.items() if k != "attention.sliding_window"}
PLAIN["block_count"] = 2
MLA: dict[str, Any] = {**PLAIN, "rope.dimension_count": 16, "attention.head_count_kv": 4}
WINDOWS: dict[str, Any] = {
    **SMALL,
    "block_count": 4,
    "attention.sliding_window_pattern": [True, False, True, False],
    "rope.freq_base_swa": 1000.0,
}
EXPERTS: dict[str, Any] = {
    "expert_count": 6,
    "expert_used_count": 2,
    "expert_feed_forward_length": 48,
}
XIELU: dict[str, Any] = {
    "/xielu.alpha_n": ("f32", [0.3, 0.9]),
    "/xielu.alpha_p": ("f32", [0.6, -0.4]),
    "/xielu.beta": ("f32", [0.5, 0.4]),
    "/xielu.eps": ("f32", [-1e-6, -1e-6]),
}
MODELS: dict[str, RandomModel] = {
    "apertus": RandomModel(
        "apertus",
        PLAIN | XIELU,
        apart,
        ("rope_freqs.weight", "output.weight"),
    ),
    "bitnet": RandomModel(
        "bitnet",
        {
            **PLAIN,
            "attention.key_length": 16,
            "attention.value_length": 16,
            "rope.dimension_count": 16,
        },
        apart,
        ("attn_q.scale", "attn_output.scale", "ffn_up.scale", "ffn_down.scale"),
    ),
    "chameleon": RandomModel(
        "chameleon",
        {
            **PLAIN,
            "attention.key_length": 16,
            "attention.value_length": 16,
            "rope.dimension_count": 16,
            "vocab_size": 8256,
        },
        apart,
        ("attn_q_norm.weight", "attn_k_norm.weight", "attn_q_norm.bias"),
    ),
    "plm": RandomModel("plm", {**MLA, "attention.kv_lora_rank": 24}, apart),
    "step35": RandomModel(
        "step35",
        {
            **WINDOWS,
            **EXPERTS,
            "attention.head_count": [4, 6, 4, 6],
            "attention.head_count_kv": [2, 3, 2, 3],
            "leading_dense_block_count": 1,
            "expert_shared_feed_forward_length": 40,
            "expert_weights_norm": True,
            "expert_weights_scale": 1.5,
            "swiglu_clamp_exp": ("f32", [0.0, 0.25, 0.0, 0.5]),
            "swiglu_clamp_shexp": ("f32", [0.0, 0.0, 0.5, 0.25]),
        },
        apart,
        ("rope_freqs.weight", "exp_probs_b.bias", "output.weight"),
        other=("attn_gate.weight",),
    ),
}
