"""Tensors that a file has and its architecture does not know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_model
from reference import NAMES, unpack

from llamapy import Model
from llamapy.base.errors import FileError
from llamapy.loader.spec import apart

KEYS: dict[str, Any] = {
    "embedding_length": 64,
    "feed_forward_length": 96,
    "block_count": 2,
    "attention.head_count": 4,
    "attention.layer_norm_rms_epsilon": 1e-6,
}
TOKENS = [3, 100, 41, 7, 8, 5, 77, 2]


def logits(path: Path, **how: Any) -> tuple[np.ndarray, list[str]]:
    with Model.open(path, **how) as model, model.context(n_threads=1) as ctx:
        return ctx.decode(TOKENS, logits="all"), model.warnings


@pytest.fixture
def llama(tmp_path: Path) -> Callable[..., Path]:
    def write(arch: str = "llama", keys: dict[str, Any] = KEYS, **more: Any) -> Path:
        name = f"{len(list(tmp_path.iterdir()))}.gguf"
        return random_model.write(tmp_path / name, arch, keys, has=apart, **more)

    return write


def test_a_part_of_the_model_is_an_error_unless_lenient(llama) -> None:
    more = {"v.blk.0.ln1.weight": (8,), "blk.0.attn_rel_b.weight": (64,), "output_gate": (64,)}
    path = llama(unread=more)
    with pytest.raises(FileError) as e:
        Model.open(path)
    assert str(e.value) == (
        f"{path}: tensor 'blk.0.attn_rel_b.weight' (and 1 more): llama has no such tensor here: "
        "what it changes is not computed (--lenient: go on without)"
    )
    got, warnings = logits(path, lenient=True)
    assert warnings == [
        f"{path}: tensor 'blk.0.attn_rel_b.weight' (and 1 more): llama has no such tensor, "
        "it is not used"
    ]
    assert np.array_equal(got, logits(llama())[0])


def test_what_is_no_part_of_it_is_warned_of(llama) -> None:
    path = llama(unread={"v.blk.0.ln1.weight": (8,)})
    assert logits(path)[1] == [
        f"{path}: tensor 'v.blk.0.ln1.weight': llama has no such tensor, it is not used"
    ]


def test_what_other_architectures_know_is_no_excuse(llama) -> None:
    with pytest.raises(FileError, match=r"blk\.1\.post_ffw_norm\.weight': llama has no such"):
        Model.open(llama(unread={"blk.1.post_ffw_norm.weight": (64,)}))


def test_layers_beyond_the_last_are_an_error(llama) -> None:
    with pytest.raises(FileError, match=r"blk\.2\.attn_norm\.weight"):
        Model.open(llama(unread={"blk.2.attn_norm.weight": (64,)}))


def test_what_stands_for_nothing_is_passed_over(llama) -> None:
    plain = logits(llama())[0]
    got, warnings = logits(llama(unread={"blk.0.attn_q.input_scale": (1,)}))
    assert warnings == [] and np.array_equal(got, plain)
    keys = {**KEYS, "block_count": 3, "nextn_predict_layers": 1, "expert_count": 4}
    keys |= {
        "expert_used_count": 2,
        "expert_feed_forward_length": 32,
        "leading_dense_block_count": 1,
    }
    keys |= {"expert_shared_count": 1, "attention.key_length": 16, "attention.value_length": 16}
    extra = {"blk.2.attn_q.weight": (64, 64), "blk.2.nextn.eh_proj.weight": (128, 64)}
    assert logits(llama("hy_v3", keys, unread=extra))[1] == []


@pytest.mark.parametrize("arch", ["llama", "qwen3moe"])
def test_scales_of_matrices_multiply(llama, arch) -> None:
    """By powers of two, so that scaled products are products of scaled weights to the bit."""
    keys = {**KEYS, "attention.key_length": 16, "attention.value_length": 16}
    if arch == "qwen3moe":
        keys |= {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32}
    names = ["attn_q", "attn_output"]
    names += ["ffn_up_exps", "ffn_down_exps"] if arch == "qwen3moe" else ["ffn_gate", "ffn_down"]
    sizes = {n: 4 if "exps" in n else 1 for n in names}
    factors = {f"blk.{il}.{n}.weight": 4.0 for il in (0, 1) for n in names}
    values = {f"blk.{il}.{n}.scale": [4.0] * k for il in (0, 1) for n, k in sizes.items()}
    want = logits(llama(arch, keys, scaled=factors))[0]
    got = logits(llama(arch, keys, given=values))[0]
    assert not np.array_equal(got, logits(llama(arch, keys))[0])
    assert np.array_equal(got, want)


def test_each_expert_has_its_own_scale(llama) -> None:
    keys = {**KEYS, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32}
    keys |= {"block_count": 1, "attention.key_length": 16, "attention.value_length": 16}
    path = llama("qwen3moe", keys, given={"blk.0.ffn_down_exps.scale": [0.0, 2.0, 0.0, 0.0]})
    none = llama("qwen3moe", keys, given={"blk.0.ffn_down_exps.scale": [0.0] * 4})
    plain = llama("qwen3moe", keys)
    some = [not np.array_equal(a, b) for a, b in zip(logits(path)[0], logits(none)[0], strict=True)]
    assert any(some) and not all(some)  # those that chose the second expert
    assert not np.array_equal(logits(path)[0], logits(plain)[0])


@pytest.mark.parametrize("name", NAMES)
def test_reference_models_have_nothing_unknown(name, tmp_path) -> None:
    with Model.open(unpack(name, tmp_path)) as model:
        assert model.warnings == []
