"""What a model file says of itself, damaged files as far as the damage allows. No numpy in here."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llamapy.app.identity import model_hash
from llamapy.app.inspect_vocab import end_tokens, token_types
from llamapy.base.errors import FileError
from llamapy.loader.gguf import GGUF
from llamapy.loader.splits import ModelFiles, open_model
from llamapy.loader.values import NumberArray, StringArray
from llamapy.loader.words import one_line, shown, text

SCHEMA_VERSION = 1
SHORT = 64  # arrays up to this length are given whole
FIRST = 8  # elements given of longer ones

# general.file_type: what a converter says the file mostly holds.
FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
    11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S",
    17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS",
    23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M",
    30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0",
}  # fmt: skip
GUESSED = 1024  # flag of general.file_type: not written by a quantiser, but guessed

# What the summary shows of the architecture's own keys: field, key after the architecture's name.
SHAPE = {
    "n_layer": "block_count",
    "n_ctx_train": "context_length",
    "n_embd": "embedding_length",
    "n_ff": "feed_forward_length",
    "n_head": "attention.head_count",
    "n_head_kv": "attention.head_count_kv",
    "n_embd_head_k": "attention.key_length",
    "n_embd_head_v": "attention.value_length",
    "n_swa": "attention.sliding_window",
    "n_expert": "expert_count",
    "n_expert_used": "expert_used_count",
    "n_rot": "rope.dimension_count",
    "rope_freq_base": "rope.freq_base",
}

Files = GGUF | ModelFiles


def inspect(
    path: str | os.PathLike[str],
    *,
    tensors: bool = False,
    hashes: bool = False,
    template: bool = False,
) -> dict[str, Any]:
    """A dictionary that JSON can hold. `problems` is empty for a sound file; a shard stands for its
    whole model, or for itself when the others are missing or damaged. `hashes`, `template`: read
    all of the file for its sha256; give the texts of chat templates. Raises FileError when nothing
    can be read: no such file, or no GGUF."""
    files, problems = _open(Path(path))
    with files:
        out: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "command": "inspect",
            "path": one_line(files.path),
            "size_bytes": files.size_bytes,
            "version": files.version,
            "alignment": files.alignment,
            "architecture": _plain(files.keys.get("general.architecture")),
            "name": _plain(files.keys.get("general.name")),
            **_shape(files),
            **_weights(files),
            "tokenizer": _tokenizer(files),
            "chat_template": _templates(files.keys, texts=template),
            "split": _split(files),
            "keys": {name: _key(files, name) for name in files.keys},  # noqa: SIM118
            "notes": _notes(files),
            "problems": problems,
        }
        if hashes:
            out["hashes"] = _hashes(files)
        if tensors:
            out["tensors"] = [_tensor(files, name) for name in files.tensors]
    return out


def _open(path: Path) -> tuple[Files, list[str]]:
    try:
        return open_model(path), []
    except FileError as e:
        if path.is_dir():
            raise
        first = str(e)
        try:
            file = GGUF.open(path, lenient=True)
        except FileError:
            raise e from None
    problems = file.problems if first in file.problems else [first, *file.problems]
    return file, problems


def _plain(value: Any) -> Any:
    """A value as JSON can hold it; long arrays by their first elements."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if not isinstance(value, NumberArray | StringArray):
        return value
    head = [_plain(v) if isinstance(value, NumberArray) else text(v) for v in value[:SHORT]]
    return head if len(value) <= SHORT else {"count": len(value), "first": head[:FIRST]}


def _key(files: Files, name: str) -> dict[str, Any]:
    return {"type": files.keys.type_of(name), "value": _plain(files.keys[name])}


def _shape(files: Files) -> dict[str, Any]:
    arch = files.keys.get("general.architecture")
    return {field: _plain(files.keys.get(f"{arch}.{key}")) for field, key in SHAPE.items()}


def _weights(files: Files) -> dict[str, Any]:
    """Totals, and the same per element type, the largest share first."""
    types: dict[str, dict[str, Any]] = {}
    for t in files.tensors.values():
        row = types.setdefault(
            t.type.name, {"type": t.type.name, "n_tensors": 0, "n_elements": 0, "n_bytes": 0}
        )
        row["n_tensors"] += 1
        row["n_elements"] += t.n_elements
        row["n_bytes"] += t.n_bytes
    rows = sorted(types.values(), key=lambda row: -row["n_bytes"])
    n_elements = sum(row["n_elements"] for row in rows)
    n_bytes = sum(row["n_bytes"] for row in rows)
    file_type = files.keys.get("general.file_type")
    mostly = FILE_TYPES.get(file_type & ~GUESSED) if isinstance(file_type, int) else None
    return {
        "n_parameters": n_elements,
        "n_tensors": len(files.tensors),
        "weight_bytes": n_bytes,
        "bits_per_weight": round(8 * n_bytes / n_elements, 4) if n_elements else None,
        "file_type": mostly,
        "types": rows,
    }


def _tokenizer(files: Files) -> dict[str, Any] | None:
    keys = files.keys
    tokens = keys.get("tokenizer.ggml.tokens")
    merges = keys.get("tokenizer.ggml.merges")
    if "tokenizer.ggml.model" not in keys and tokens is None:
        return None
    special = {}
    for key, id_ in keys.items():
        if key.startswith("tokenizer.ggml.") and key.endswith("_token_id") and _is_id(id_):
            role = key.removeprefix("tokenizer.ggml.").removesuffix("_token_id")
            known = isinstance(tokens, StringArray) and 0 <= id_ < len(tokens)
            special[role] = {"id": id_, "text": text(tokens[id_]) if tokens and known else None}
    return {
        "model": _plain(keys.get("tokenizer.ggml.model")),
        "pre": _plain(keys.get("tokenizer.ggml.pre")),
        "n_tokens": len(tokens) if isinstance(tokens, StringArray) else None,
        "n_merges": len(merges) if isinstance(merges, StringArray) else None,
        "types": token_types(keys),
        "special": special,
        "end_of_generation": end_tokens(keys),
        **{f"add_{role}": keys.get(f"tokenizer.ggml.add_{role}_token") for role in ("bos", "eos")},
    }


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _templates(keys: Mapping[str, Any], *, texts: bool) -> dict[str, Any] | None:
    """The chat templates by name, '' being the main one: their lengths, and their `texts`."""
    prefix = "tokenizer.chat_template"
    found = {
        key.removeprefix(prefix).lstrip("."): value
        for key, value in keys.items()
        if (key == prefix or key.startswith(prefix + ".")) and isinstance(value, str)
    }
    if not found:
        return None
    lengths = {name: len(value) for name, value in found.items()}
    return {"n_chars": lengths, **({"text": found} if texts else {})}


def _hashes(files: Files) -> dict[str, Any]:
    """`model` is the one that results name; of each file the sha256 of all its bytes."""
    shards = files.shards if isinstance(files, ModelFiles) else [files]
    sums = [
        {"path": one_line(shard.path), "sha256": hashlib.sha256(shard.view).hexdigest()}
        for shard in shards
    ]
    return {"model": model_hash(files), "files": sums}


def _split(files: Files) -> dict[str, Any] | None:
    found = {
        name.removeprefix("split.").replace(".", "_"): _plain(value)
        for name, value in files.keys.items()
        if name.startswith("split.")
    }
    if not found:
        return None
    shards = files.shards if isinstance(files, ModelFiles) else [files]
    paths = [{"path": one_line(s.path), "size_bytes": s.size_bytes} for s in shards]
    return {**found, "files": paths}


def _tensor(files: Files, name: str) -> dict[str, Any]:
    t = files.tensors[name]
    return {
        "name": name,
        "type": t.type.name,
        "shape": list(t.ne[: max(t.n_dims, 1)]),
        "shard": t.shard,
        "offset": t.offset,
        "n_bytes": t.n_bytes,
    }


def _notes(files: Files) -> list[str]:
    """What is sound as a file but will stop, or surprise, somebody."""
    keys, out = files.keys, []
    kind = keys.get("tokenizer.ggml.model")
    if "general.architecture" not in keys:
        out.append("no key general.architecture: the file cannot be run")
    if kind == "gpt2" and not keys.get("tokenizer.ggml.merges"):
        out.append("a gpt2 (BPE) vocabulary without merges: it cannot read text")
    if kind == "gpt2" and "tokenizer.ggml.pre" not in keys:
        out.append("no key tokenizer.ggml.pre: how text is split into words has to be given")
    empty = [t.name for t in files.tensors.values() if t.n_bytes == 0]
    if empty:
        out.append(f"{len(empty)} tensors without elements, such as {shown(empty[0])}")
    for shard in files.shards if isinstance(files, ModelFiles) else [files]:
        if shard.n_trailing:
            out.append(f"{one_line(shard.path)}: {shard.n_trailing} bytes after the last tensor")
    return out
