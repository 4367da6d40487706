"""Models made of random weights: the types of their tensors, their sizes, and finite values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from llamapy.app.bench.blocks import LAYOUTS, random_blocks
from llamapy.app.bench.mix import KINDS, Where, kind_named, type_name
from llamapy.app.bench.shapes import SHAPES, parse_spec
from llamapy.app.bench.synthetic import make_files, plan_tensors
from llamapy.base.errors import UsageError
from llamapy.base.types import BY_NAME

BLOCKS = {name: t.block for name, t in BY_NAME.items()}


def types_of(spec: str) -> dict[str, str]:
    return {s.name: t.name for s, t in plan_tensors(parse_spec(spec))}


def per_layer(types: dict[str, str], part: str) -> list[str]:
    return [t for name, t in types.items() if name.split(".")[-2] == part]


def test_specs() -> None:
    spec = parse_spec("llama-1b:q4_k_m")
    assert (spec.name, spec.kind, spec.shape) == ("llama-1b:Q4_K_M", "Q4_K_M", SHAPES["llama-1b"])
    few = parse_spec("Llama-1B/8:Q8_0")
    assert (few.name, few.shape.n_layer, few.shape.n_ff) == ("llama-1b/8:Q8_0", 8, 8192)
    assert kind_named("Q4_K") == "Q4_K_M"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("llama-1b", "expected SHAPE"),
        ("llama-1b/x:Q8_0", "expected SHAPE"),
        ("llama-1b/0:Q8_0", "from 1 to 512"),
        ("lama-1b:Q8_0", "did you mean 'llama-1b'"),
        ("llama-1b:Q4_KM", "did you mean 'Q4_K_M'"),
        ("llama-1b:Q8_0:x", "expected SHAPE"),
    ],
)
def test_bad_specs(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_spec(text)


def test_plain_kinds_have_one_type_and_a_better_output() -> None:
    types = types_of("llama-1b/4:Q4_0")
    matrices = {n: t for n, t in types.items() if not n.endswith("norm.weight")}
    assert matrices.pop("output.weight") == "q6_K" and set(matrices.values()) == {"q4_0"}
    assert {t for n, t in types.items() if n.endswith("norm.weight")} == {"f32"}
    assert set(types_of("llama-1b/1:F16").values()) == {"f16", "f32"}
    assert types_of("llama-1b/1:Q8_0")["output.weight"] == "q8_0"


def test_more_bits_for_some_layers() -> None:
    """First and last eighth, and every third between: 0 1, 4 7 10 13, 14 15 of 16."""
    types = types_of("llama-1b:Q4_K_M")
    better = {0, 1, 4, 7, 10, 13, 14, 15}
    expected = ["q6_K" if i in better else "q4_K" for i in range(16)]
    assert per_layer(types, "attn_v") == expected == per_layer(types, "ffn_down")
    assert set(per_layer(types, "ffn_up") + per_layer(types, "attn_q")) == {"q4_K"}
    assert types["output.weight"] == "q6_K" and types["token_embd.weight"] == "q4_K"


@pytest.mark.parametrize(
    ("kind", "part", "types"),
    [
        ("Q3_K_M", "attn_v", ["q5_K"] * 2 + ["q4_K"] * 14),
        ("Q3_K_M", "ffn_down", ["q5_K"] + ["q4_K"] * 15),
        ("Q3_K_M", "attn_output", ["q4_K"] * 16),
        ("Q3_K_M", "attn_k", ["q3_K"] * 16),
        ("Q2_K", "attn_v", ["q4_K"] * 16),
        ("Q2_K", "ffn_down", ["q3_K"] * 16),
        ("Q4_K_S", "attn_v", ["q5_K"] * 4 + ["q4_K"] * 12),
        ("Q4_K_S", "ffn_down", ["q5_K"] * 2 + ["q4_K"] * 14),
        ("IQ4_XS", "attn_v", ["q5_K"] * 16),
        ("IQ4_XS", "ffn_down", ["iq4_xs"] * 16),
        ("IQ1_S", "attn_output", ["iq2_xxs"] * 16),
        ("IQ2_XS", "ffn_down", ["q2_K"] * 2 + ["iq2_xs"] * 14),
    ],
)
def test_mixes(kind: str, part: str, types: list[str]) -> None:
    assert per_layer(types_of(f"llama-1b:{kind}"), part) == types


def test_rows_that_fit_no_block() -> None:
    """SmolLM2 is 576 wide, no multiple of 256; its feed-forward, 1536, is one."""
    types = types_of("smollm2-135m/30:Q4_K_M")
    assert types["blk.0.attn_q.weight"] == "q5_0" and types["blk.0.attn_v.weight"] == "q8_0"
    assert types["blk.0.ffn_down.weight"] == "q6_K"
    assert types["token_embd.weight"] == "q8_0"  # the output matrix too
    where = Where("blk.0.attn_q.weight", 0, 1, 1, False)
    assert type_name("IQ4_XS", where, 576, BLOCKS) == "iq4_nl"
    assert type_name("Q4_0", where, 100, BLOCKS) == "f16"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_made_of_types_that_fit(kind: str) -> None:
    for shape in ("llama-1b", "gemma-3-270m"):
        for s, t in plan_tensors(parse_spec(f"{shape}/8:{kind}")):
            assert s.ne[0] % t.block == 0
            assert t.block == 1 or t.name in LAYOUTS


@pytest.mark.parametrize(
    ("name", "millions"),
    [
        ("llama-3.2-1b", 1236),
        ("llama-3.2-3b", 3213),
        ("llama-8b", 8030),
        ("smollm2-135m", 135),
        ("gemma-3-270m", 268),
    ],
)
def test_shapes_have_as_many_parameters_as_their_models(name: str, millions: int) -> None:
    plan = plan_tensors(parse_spec(f"{name}:Q8_0"))
    assert sum(math.prod(s.ne) for s, _ in plan) / 1e6 == pytest.approx(millions, abs=0.6)


def test_a_file_in_memory() -> None:
    """Sizes by formula, every byte in its place, the same bytes each time."""
    with make_files(parse_spec("smollm2-135m/2:Q4_1")) as files:
        info = files.tensors["blk.1.ffn_down.weight"]
        assert info.ne == (1536, 576, 1, 1) and info.n_bytes == 1536 // 32 * 20 * 576
        assert files.tensors["token_embd.weight"].type.name == "q8_0"
        assert "output.weight" not in files.tensors
        rows = np.frombuffer(files.data(info), np.uint8).reshape(-1, 20)
        d = rows[:, :2].copy().view("<f2")
        assert (d == np.float16(1 / (1536**0.5 * 4.6))).all()
        assert len(np.unique(rows[:, 4:])) == 256
        norm = np.frombuffer(files.data(files.tensors["output_norm.weight"]), np.float32)
        assert norm.shape == (576,) and (norm == 1).all()
        with make_files(parse_spec("smollm2-135m/2:Q4_1")) as again:
            assert bytes(again.data(again.tensors["blk.1.ffn_down.weight"])) == rows.tobytes()
        del rows, norm


@pytest.mark.parametrize("name", [*LAYOUTS, "f16", "bf16", "f32"])
def test_random_rows_are_finite_and_about_one_long(name: str) -> None:
    gguf = pytest.importorskip("gguf")
    t, k = BY_NAME[name], 2048
    raw = random_blocks(t, 16 * k // t.block, k, np.random.default_rng(1))
    assert raw.shape == (16 * t.row_bytes(k),)
    if name in ("f32", "f16"):
        values = raw.view(np.float32 if name == "f32" else np.float16).astype(np.float64)
    else:
        try:
            kind = gguf.GGMLQuantizationType(t.id)
            values = gguf.quants.dequantize(raw.reshape(16, -1), kind).astype(np.float64)
        except (NotImplementedError, ValueError) as e:
            pytest.skip(f"no second opinion on {name}: {e}")
    assert np.isfinite(values).all()
    lengths = np.sqrt((values.reshape(16, k) ** 2).sum(1))
    assert 0.7 < lengths.min() <= lengths.max() < 1.4
