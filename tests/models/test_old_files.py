"""Files in which a matrix has another form than in those of today."""

from __future__ import annotations

import numpy as np
from gguf import GGUFReader
from gguf_writer import Writer
from reference import logits, nmse, unpack

from llamapy import Model

TOKENS = logits()["tokens"].tolist()


def copy_key(out: Writer, key: str, value) -> None:
    if isinstance(value, str):
        out.text(key, value)
    elif isinstance(value, list):
        first = value[0]
        if isinstance(first, str):
            out.strings(key, value)
        else:
            out.array(key, "f32" if isinstance(first, float) else "i32", value)
    else:
        out.key(key, "f32" if isinstance(value, float) else "u32", value)


def with_ssm_in(source, path):
    """The file with q, k, v and gate of each head of k side by side in one matrix."""
    reader, out, n, heads = GGUFReader(source), Writer(), 128, 2
    for key, field in reader.fields.items():
        if not key.startswith("GGUF."):
            copy_key(out, key, field.contents())
    w = {t.name: np.asarray(t.data, np.float32) for t in reader.tensors}
    parts = np.split(w.pop("blk.0.attn_qkv.weight"), [n * heads, 2 * n * heads])
    by_head = [p.reshape(heads, -1, 64) for p in (*parts, w.pop("blk.0.attn_gate.weight"))]
    w["blk.0.ssm_in.weight"] = np.concatenate(by_head, 1).reshape(-1, 64)
    for name, x in w.items():
        out.tensor(name, x.shape[::-1], "f32", np.ascontiguousarray(x).tobytes())
    return out.save(path)


def test_qwen3next_with_all_inputs_in_one_matrix(tmp_path):
    path = with_ssm_in(unpack("qwen3next-moe", tmp_path), tmp_path / "old.gguf")
    with Model.open(path) as model, model.context(n_ctx=256, type_k="f32", type_v="f32") as ctx:
        assert nmse(ctx.decode(TOKENS, logits="all"), logits()["qwen3next-moe"]) <= 1e-8
