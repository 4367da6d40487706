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
LATENT: dict[str, Any] = {
    **PLAIN,
    **EXPERTS,
    "block_count": 3,
    "attention.key_length": 32,
    "attention.value_length": 24,
    "attention.key_length_mla": 24,
    "attention.value_length_mla": 16,
    "attention.q_lora_rank": 20,
    "attention.kv_lora_rank": 24,
    "attention.head_count_kv": 1,
    "rope.dimension_count": 8,
    "leading_dense_block_count": 1,
    "expert_shared_count": 2,
    "expert_gating_func": 2,
    "expert_weights_norm": True,
    "expert_weights_scale": 2.5,
    "attention.indexer.head_count": 2,
    "attention.indexer.key_length": 128,
    "attention.indexer.top_k": 512,
}
# Weights of what would choose tokens in contexts of more than 512.
CHOOSING: dict[str, tuple[int, ...]] = {
    f"blk.{il}.indexer.{name}": ne
    for il in range(3)
    for name, ne in {
        "k_norm.weight": (128,),
        "k_norm.bias": (128,),
        "proj.weight": (64, 2),
        "attn_k.weight": (64, 128),
        "attn_q_b.weight": (20, 256),
    }.items()
}
CHOOSING_BLOCKS: dict[str, tuple[int, ...]] = {
    f"blk.1.indexer.{name}.weight": ne
    for name, ne in {
        "q_proj": (64, 32),
        "k_proj": (64, 16),
        "q_norm": (16,),
        "k_norm": (16,),
    }.items()
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
    "deepseek32": RandomModel(
        "deepseek32", LATENT, apart, ("exp_probs_b.bias", "output.weight"), unread=CHOOSING
    ),
    "deepseek2-ocr": RandomModel(
        "deepseek2-ocr",
        {
            **PLAIN,
            **EXPERTS,
            "attention.head_count_kv": 4,
            "attention.key_length": 16,
            "attention.value_length": 16,
            "rope.dimension_count": 16,
            "leading_dense_block_count": 1,
            "expert_shared_count": 2,
            "expert_weights_scale": 1.5,
        },
        apart,
        ("exp_probs_b.bias", "output.weight"),
    ),
    "glm-dsa": RandomModel(
        "glm-dsa", LATENT, apart, ("exp_probs_b.bias", "output.weight"), unread=CHOOSING
    ),
    "graniteswitch": RandomModel(
        "graniteswitch",
        {
            **PLAIN,
            "logit_scale": 2.0,
            "residual_scale": 0.5,
            "embedding_scale": 3.0,
            "attention.scale": 0.3,
            "adapters.count": 3,
            "adapters.lora_rank": 8,
            "adapters.token_ids_activate": [106, 126, 118],
            "adapters.token_ids_substitute": [5, 6, 7],
        },
        lambda name: (
            name.endswith("attn_qkv.weight") or (apart(name) and not name.endswith("attn_q.weight"))
        ),
        ("output.weight",),
    ),
    "minimax-m3": RandomModel(
        "minimax-m3",
        {
            **PLAIN,
            **EXPERTS,
            "rope.dimension_count": 16,
            "leading_dense_block_count": 1,
            "expert_shared_count": 1,
            "expert_gating_func": 2,
            "expert_weights_norm": True,
            "expert_weights_scale": 2.0,
            "attention.indexer.head_count": 2,
            "attention.indexer.key_length": 16,
            "attention.indexer.top_k": 4,
            "attention.indexer.block_size": 128,
            "attention.indexer.local_blocks": 1,
        },
        apart,
        ("exp_probs_b.bias", "output.weight"),
        unread=CHOOSING_BLOCKS,
    ),
    "nemotron-uneven": RandomModel(
        "nemotron_h_moe",
        {
            **PLAIN,
            **EXPERTS,
            "block_count": 5,
            "attention.layer_norm_epsilon": 1e-5,
            "attention.head_count_kv": [0, 0, 2, 0, 0],
            "feed_forward_length": [0, 96, 0, 96, 96],
            "expert_used_count": [0, 3, 0, 1, 2],
            "expert_feed_forward_length": [0, 48, 0, 80, 16],
            "expert_shared_count": 1,
            "expert_shared_feed_forward_length": 40,
            "expert_weights_norm": True,
            "expert_weights_scale": 2.5,
            "moe_latent_size": 32,
            "ssm.conv_kernel": 4,
            "ssm.inner_size": 128,
            "ssm.state_size": 16,
            "ssm.time_step_rank": 8,
            "ssm.group_count": 2,
        },
        lambda name: apart(name) and "ffn_routed" not in name,
        ("exp_probs_b.bias", "output.weight", "ssm_norm.weight", "ssm_conv1d.bias"),
        {"ssm_a": -1.0},
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
