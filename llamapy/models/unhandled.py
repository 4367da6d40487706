"""Keys that change what a model computes, refused where its architecture does not read them.

A file that says of such a key what its absence says is fine. An architecture that reads one names
it in its module's HANDLES.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from llamapy.base.errors import FileError
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams

Harmless = Callable[[Any, HParams], bool]


def _only(*values: object) -> Harmless:
    return lambda value, hp: value in values


def _zero(value: Any, hp: HParams) -> bool:
    """Of a number, or of every number of an array."""
    return not value if isinstance(value, int | float | str) else not any(value)


# By the part of the key after the architecture: which values change nothing.
CHANGING: dict[str, Harmless] = {
    "attention.causal": _only(True),
    "attention.clamp_kqv": _zero,
    "attention.compress_ratios": _zero,
    "attention.head_count": lambda value, hp: any(hp.n_head),
    "attention.head_count_kv": lambda value, hp: all(
        kv or not h for h, kv in zip(hp.n_head, hp.n_head_kv, strict=True)
    ),
    "attention.key_length_mla": _zero,
    "attention.key_length_swa": lambda value, hp: value == hp.n_embd_head_k,
    "attention.kv_lora_rank": _zero,
    "attention.max_alibi_bias": _zero,
    "attention.output_scale": _only(0.0, 1.0),
    "attention.q_lora_rank": _zero,
    "attention.rope_pattern": lambda value, hp: all(
        value if isinstance(value, Sequence) else [value]
    ),
    "attention.shared_kv_layers": _zero,
    "attention.sliding_window": lambda value, hp: (
        _zero(value, hp) or (isinstance(value, int) and value >= hp.n_ctx_train)
    ),
    "attention.temperature_scale": _zero,
    "attention.value_length_mla": _zero,
    "attention.value_length_swa": lambda value, hp: value == hp.n_embd_head_v,
    "embedding_length_per_layer_input": _zero,
    "embedding_scale": _only(0.0, 1.0),
    "expert_count": _zero,
    "hidden_activation": _only(),
    "logit_scale": _only(0.0, 1.0),
    "nextn_predict_layers": _zero,
    "num_loops": _only(1),
    "attention.value_scale": _only(0.0, 1.0),
    "skip_loop_final_norm": _only(False),
    "swiglu_clamp_exp": _zero,
    "swiglu_clamp_shexp": _zero,
    "residual_scale": _only(0.0, 1.0),
    "rope.dimension_count_swa": lambda value, hp: value == hp.n_rot,
    "rope.dimension_sections": _zero,
    "rope.scaling.type": lambda value, hp: value != "longrope",
    "rope.scaling.yarn_attn_factor": _only(1.0),
    "rope.scaling.yarn_log_multiplier": _zero,
    "ssm.dt_b_c_rms": _only(False),
    "swin_norm": _only(False),
    "use_parallel_residual": _only(False),
}


def refuse_unhandled(file: Keys, hp: HParams, handles: Collection[str]) -> None:
    """FileError naming the first key that would change the result and that nobody reads."""
    for name, harmless in CHANGING.items():
        key = f"{hp.arch}.{name}"
        if name not in handles and key in file.keys and not harmless(file.keys[key], hp):
            raise FileError(
                f"{file.path}: key {key}: {str(file.keys[key])[:40]!r} is not supported for "
                f"{hp.arch} yet"
            )
