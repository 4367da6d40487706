"""Files of keys alone, as sound as their reader is told to make them."""

from __future__ import annotations

from gguf_writer import Writer

from llamapy.loader.gguf import GGUF


def opened(tmp_path, arch="llama", **keys):
    """A file of keys alone. `keys` replace or add to a sound set: (type, value), None: left out."""
    usual = {
        "block_count": ("u32", 2),
        "embedding_length": ("u32", 64),
        "context_length": ("u32", 128),
        "feed_forward_length": ("u32", 96),
        "vocab_size": ("u32", 8),
        "attention.head_count": ("u32", 4),
        "attention.head_count_kv": ("u32", 2),
        "attention.layer_norm_rms_epsilon": ("f32", 1e-5),
    }
    w = Writer().text("general.architecture", arch)
    for name, given in {**usual, **keys}.items():
        if given is None:
            continue
        type_, value = given
        if type_ == "text":
            w.text(f"{arch}.{name}", value)
        elif isinstance(value, list):
            w.array(f"{arch}.{name}", type_, value)
        else:
            w.key(f"{arch}.{name}", type_, value)
    w.tensor("x", (1,))
    return GGUF.open(w.save(tmp_path / "m.gguf"))
