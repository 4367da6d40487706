"""Models of unusual shapes: the CPU computes what the ops mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf_writer import Writer
from reference import nmse

from llamapy import Model
from llamapy.base.errors import LlamapyError
from llamapy.devices.ref.device import RefDevice

N_EMBD, N_VOCAB = 64, 128
TOKENS = [i * 7 % 100 for i in range(40)]


def write(
    path: Path,
    arch: str = "llama",
    n_head: tuple[int, ...] = (4, 4),
    n_head_kv: tuple[int, ...] = (2, 2),
    head_k: int = 16,
    head_v: int = 16,
    n_ff: tuple[int, ...] = (96, 96),
    tied: bool = True,
    biases: bool = False,
    norms: str = "f32",
    more: Callable[[Writer], object] = lambda w: None,
) -> Path:
    """A model of random weights, one layer per entry of `n_head`."""
    random = np.random.default_rng(1)
    w = Writer().text("general.architecture", arch)
    for name, number in [
        ("block_count", len(n_head)), ("embedding_length", N_EMBD), ("context_length", 512),
        ("vocab_size", N_VOCAB), ("attention.key_length", head_k),
        ("attention.value_length", head_v),
    ]:  # fmt: skip
        w.u32(f"{arch}.{name}", number)
    w.array(f"{arch}.attention.head_count", "u32", n_head)
    w.array(f"{arch}.attention.head_count_kv", "u32", n_head_kv)
    w.array(f"{arch}.feed_forward_length", "u32", n_ff)
    w.f32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5)
    more(w)

    def add(name: str, *ne: int, type_: str = "f32", mean: float = 0.0) -> None:
        values = mean + 0.2 * random.standard_normal(int(np.prod(ne)))
        w.tensor(name, ne, type_, values.astype("f2" if type_ == "f16" else "f4").tobytes())

    add("token_embd.weight", N_EMBD, N_VOCAB)
    for il, (h, kv, ff) in enumerate(zip(n_head, n_head_kv, n_ff, strict=True)):
        gemma = ("post_attention_norm", "post_ffw_norm") if arch == "gemma3" else ()
        for name in ("attn_norm", "ffn_norm", *gemma):
            add(f"blk.{il}.{name}.weight", N_EMBD, type_=norms, mean=1.0)
        if arch == "gemma3":
            for name in ("attn_q_norm", "attn_k_norm"):
                add(f"blk.{il}.{name}.weight", head_k, mean=1.0)
        for name, n_in, n_out in [
            ("attn_q", N_EMBD, head_k * h), ("attn_k", N_EMBD, head_k * kv),
            ("attn_v", N_EMBD, head_v * kv), ("attn_output", head_v * h, N_EMBD),
            ("ffn_gate", N_EMBD, ff), ("ffn_up", N_EMBD, ff), ("ffn_down", ff, N_EMBD),
        ]:  # fmt: skip
            add(f"blk.{il}.{name}.weight", n_in, n_out)
            if biases:
                add(f"blk.{il}.{name}.bias", n_out)
    add("output_norm.weight", N_EMBD, mean=1.0)
    if not tied:
        add("output.weight", N_EMBD, N_VOCAB)
    return w.save(path)


def yarn(w: Writer) -> None:
    w.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4.0)
    w.u32("llama.rope.scaling.original_context_length", 64)


SHAPES = {
    "biases and an output matrix": {"biases": True, "tied": False},
    "k and v of different widths": {"head_k": 48, "head_v": 80},
    "widths that are no multiple of anything": {
        "head_k": 18, "head_v": 7, "more": lambda w: w.u32("llama.rope.dimension_count", 6),
    },
    "another shape in each layer": {"n_head": (4, 6), "n_head_kv": (2, 3), "n_ff": (96, 31)},
    "one head of k and v": {"n_head": (8, 8), "n_head_kv": (1, 1)},
    "as many heads of k and v as of q": {"n_head_kv": (4, 4)},
    "yarn": {"more": yarn},
    "linear scaling": {"more": lambda w: w.f32("llama.rope.scaling.factor", 2.0)},
    "soft caps": {
        "more": lambda w: w.f32("llama.attn_logit_softcapping", 2.0)
        .f32("llama.final_logit_softcapping", 3.0),
    },
    "a window of one": {
        "arch": "gemma3", "more": lambda w: w.u32("gemma3.attention.sliding_window", 1),
    },
    "a window larger than the context": {
        "arch": "gemma3", "more": lambda w: w.u32("gemma3.attention.sliding_window", 2**31 - 1),
    },
    "windows in all layers": {
        "arch": "gemma3",
        "more": lambda w: w.u32("gemma3.attention.sliding_window", 5)
        .u32("gemma3.attention.sliding_window_pattern", 0),
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_any_shape_is_computed_as_it_means(tmp_path, shape):
    path = write(tmp_path / "m.gguf", **shape)
    found = []
    for devices in ([], [RefDevice(np.float64)]):
        with (
            Model.open(path, devices=devices, n_gpu_layers=99) as model,
            model.context(n_ctx=256, n_ubatch=16, type_k="f32", type_v="f32") as ctx,
        ):
            found.append(ctx.decode(TOKENS, logits="all"))
    assert nmse(*found) < 1e-10


@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_a_type_that_no_kernel_reads_is_refused_by_name(tmp_path, arch):
    path = write(tmp_path / "m.gguf", arch, norms="f16")
    with Model.open(path) as model, pytest.raises(LlamapyError, match=r"attn_norm-0.*f16"):
        model.context(n_ctx=256)


def test_a_context_larger_than_any_memory_is_refused_before_it_is_touched(tmp_path):
    with (
        Model.open(write(tmp_path / "m.gguf")) as model,
        pytest.raises(LlamapyError, match="n_ctx must be at most") as error,
    ):
        model.context(n_ctx=1 << 50)
    assert error.value.exit_code == 5
