"""A small llama of random weights that can read and write any text: a vocabulary of bytes and some
pairs of them. What it says means nothing, but it says the same every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf_writer import Writer

from llamapy.loader.gguf import GGUF
from llamapy.models import registry
from llamapy.tokenize.bytemap import CHARS

KEYS = {
    "context_length": 65536,
    "block_count": 2,
    "embedding_length": 64,
    "feed_forward_length": 96,
    "attention.head_count": 2,
    "attention.head_count_kv": 1,
    "rope.dimension_count": 32,
}
PAIRS = ["t h", "i n", "e r", "a n", "Ġ t", "Ġ a", "Ġt h", "Ġth e"]
EOS = "<|end|>"
MASK = "<|mask|>"


def _writer(arch: str) -> Writer:
    w = Writer().text("general.architecture", arch).text("general.name", "speaking")
    for name, value in KEYS.items():
        w.u32(f"{arch}.{name}", value)
    w.f32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5)
    pieces = [*CHARS, *(pair.replace(" ", "") for pair in PAIRS), EOS]
    if arch != "llama":  # a diffusion model, which replaces masks
        pieces.insert(-1, MASK)
        w.u32("tokenizer.ggml.mask_token_id", len(pieces) - 2)
    w.u32(f"{arch}.vocab_size", len(pieces))
    w.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2")
    w.strings("tokenizer.ggml.tokens", pieces).strings("tokenizer.ggml.merges", PAIRS)
    kinds = [3 if piece in (EOS, MASK) else 1 for piece in pieces]
    w.array("tokenizer.ggml.token_type", "i32", kinds)
    return w.u32("tokenizer.ggml.eos_token_id", len(pieces) - 1)


def write(path: Path, arch: str = "llama") -> Path:
    """The same bytes every time. `arch`: another one with such keys."""
    _writer(arch).tensor("none", (1,), "f32", bytes(4)).save(path)
    found = registry.find(arch, path)
    with GGUF.open(path) as file:
        specs = found.tensors(registry.shape_of(found, file), lambda name: True)
    w, random = _writer(arch), np.random.default_rng(1)
    for s in specs:
        if s.required or s.name == "output.weight":
            values = random.normal(0.0, s.ne[0] ** -0.5, int(np.prod(s.ne)))
            values = values if len(s.ne) > 1 else np.ones(s.ne[0])
            if s.name == "output.weight":  # letters and spaces have the better logits
                rows = values.reshape(s.ne[1], s.ne[0])
                rows[[i for i, c in enumerate(CHARS) if not (c.isascii() or c == "Ġ")]] = 0.0
            w.tensor(s.name, s.ne, "f32", values.astype("<f4").tobytes())
    return w.save(path)
