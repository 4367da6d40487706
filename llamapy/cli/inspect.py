"""`llamapy inspect`: what a GGUF file holds, without loading it."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from llamapy.app.inspect import inspect
from llamapy.base.errors import FileError, UsageError
from llamapy.base.memory import in_units
from llamapy.cli import options
from llamapy.cli.streams import answer_to, is_terminal, printable

File = Annotated[
    str, typer.Argument(metavar="[FILE]", help="A GGUF file, any shard of one, or its folder.")
]
Archs = Annotated[bool, typer.Option("--archs", help="List the architectures that can be run.")]
Tensors = Annotated[bool, typer.Option("--tensors", help="List every tensor.")]
Hash = Annotated[
    bool, typer.Option("--hash", help="Also its sha256, and the hash that results name it by.")
]
Template = Annotated[
    bool, typer.Option("--template", help="Print the chat template alone; --json: all of them.")
]

WIDTH = 96  # of a key's value


def command(
    file: File = "",
    json: options.Json = False,
    tensors: Tensors = False,
    hash: Hash = False,
    template: Template = False,
    archs: Archs = False,
    verbose: options.Verbose = 0,
) -> None:
    """Print what a GGUF file says of itself; of a damaged one whatever can be read, with exit 3."""
    options.begin(verbose=verbose, json=json)
    if archs:
        _list_archs(file, json)
        return
    if not file:
        raise UsageError("inspect needs a FILE, or --archs")
    found = inspect(file, tensors=tensors, hashes=hash, template=template)
    with answer_to(None) as out:
        if json:
            out.write(jsonlib.dumps(found) + "\n")
        elif template:
            out.write(_template(found) + "\n")
        else:
            out.write("\n".join(lines(found)) + "\n")
    problems = found["problems"]
    if problems:
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise FileError(f"{problems[0]}{more}")


def _template(found: dict[str, Any]) -> str:
    """The main one, as it is in the file; a terminal gets what it would not obey."""
    texts = (found["chat_template"] or {"text": {}})["text"]
    if "" not in texts:
        named = ", ".join(map(printable, texts))
        others = f"; of those with a name it has: {named} (--json)" if texts else ""
        raise FileError(f"{found['path']}: no chat template{others}")
    text: str = texts[""]
    if is_terminal(sys.stdout):
        return "\n".join(map(printable, text.split("\n")))
    return text


def _list_archs(file: str, json: bool) -> None:
    if file:
        raise UsageError("inspect --archs takes no FILE")
    from llamapy.app.archs import table  # loads the parts of the engine

    rows = table()
    with answer_to(None) as out:
        if json:
            found = {"schema_version": 1, "command": "inspect", "architectures": rows}
            out.write(jsonlib.dumps(found) + "\n")
            return
        for row in rows:
            out.write(f"{row['name']:<18}{row['cache']:<24}{row['what']}\n")


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The text form: a summary, the types, the keys, the tensors if asked for, what is wrong."""
    for label, value in summary(found):
        if value:
            yield f"{label:<14}{printable(value)}"
    yield from _types(found)
    yield ""
    yield f"keys ({len(found['keys'])})"
    for name, key in found["keys"].items():
        yield f"  {printable(name):<40} {key['type']:<14} {printable(_short(key['value']))}"
    if "tensors" in found:
        yield ""
        yield f"tensors ({len(found['tensors'])})"
        for t in found["tensors"]:
            shape = " x ".join(map(str, t["shape"]))
            yield (
                f"  {printable(t['name']):<40} {t['type']:<8} {shape:>24} {t['n_bytes']:>12} bytes"
                f" at {t['offset']}"
            )
    for label in ("notes", "problems"):
        if found[label]:
            yield ""
            yield label
            yield from (f"  {printable(line)}" for line in found[label])


def summary(f: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "file", f"{f['path']} ({in_units(f['size_bytes'])}, GGUF version {f['version']})"
    yield "name", f["name"]
    yield "architecture", f["architecture"]
    if f["n_tensors"]:
        yield "parameters", f"{_count(f['n_parameters'])} in {f['n_tensors']} tensors"
        mostly = f", mostly {f['file_type']}" if f["file_type"] else ""
        bits = f["bits_per_weight"] or 0.0
        yield "weights", f"{in_units(f['weight_bytes'])}, {bits:.2f} bits per weight{mostly}"
    yield "layers", _known(f, n_layer="")
    yield "embedding", _known(f, n_embd="", n_ff="feed-forward")
    sizes = {"n_embd_head_k": "K size", "n_embd_head_v": "V size"}
    yield "heads", _known(f, n_head="", n_head_kv="for K and V", **sizes)
    yield "experts", _known(f, n_expert="", n_expert_used="used")
    yield "context", _known(f, n_ctx_train="", n_swa="window")
    yield "rope", _known(f, n_rot="dimensions", rope_freq_base="base")
    yield from _tokenizer(f["tokenizer"])
    templates = f["chat_template"]
    lengths = templates["n_chars"].items() if templates else ()
    named = [f"{name or 'yes'} ({n} characters)" for name, n in lengths]
    yield "chat template", ", ".join(named) or "no"
    if "hashes" in f:
        yield "hash", f["hashes"]["model"]
        yield "sha256", ", ".join(row["sha256"] for row in f["hashes"]["files"])
    if f["split"]:
        files = ", ".join(row["path"] for row in f["split"]["files"])
        yield "split", f"{f['split'].get('count')} shards: {files}"


def _tokenizer(t: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    if t is None:
        yield "tokenizer", "none"
        return
    parts = [str(t["model"]), f"{t['n_tokens']} tokens"]
    parts += [f"{t['n_merges']} merges"] if t["n_merges"] else []
    parts += [f"pre-tokenizer {t['pre']}"] if t["pre"] else []
    parts += [f"adds {role.upper()}" for role in ("bos", "eos") if t[f"add_{role}"]]
    yield "tokenizer", ", ".join(parts)
    special = [f"{role} {row['id']} {row['text']!r}" for role, row in t["special"].items()]
    yield "special", ", ".join(special)
    yield "ends", ", ".join(f"{row['id']} {row['text']!r}" for row in t["end_of_generation"])
    kinds = (t["types"] or {}).items()
    yield "token types", ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in kinds)


def _known(f: dict[str, Any], **labels: str) -> str:
    """'640, feed-forward 2048': the fields that the file has."""
    parts = [
        f"{label} {_short(f[field])}".strip()
        for field, label in labels.items()
        if f[field] is not None
    ]
    return ", ".join(parts)


def _types(f: dict[str, Any]) -> Iterator[str]:
    if f["types"]:
        yield ""
        yield f"{'type':<10}{'tensors':>8}{'parameters':>14}{'bytes':>14}{'share':>8}"
    for row in f["types"]:
        share = 100 * row["n_bytes"] / (f["weight_bytes"] or 1)
        yield (
            f"{row['type']:<10}{row['n_tensors']:>8}{row['n_elements']:>14}{row['n_bytes']:>14}"
            f"{share:>7.1f}%"
        )


def _short(value: Any) -> str:
    """A value on one line, not endless. An array of one repeated number is that number."""
    if isinstance(value, dict):
        first = ", ".join(map(_item, value["first"]))
        out = f"{value['count']}: {first}, ..."
    elif isinstance(value, list):
        same = len(value) > 1 and all(v == value[0] for v in value)
        out = f"{len(value)} x {_item(value[0])}" if same else ", ".join(map(_item, value))
    else:
        out = _item(value) if isinstance(value, float) else str(value)
    return out if len(out) <= WIDTH else f"{out[:WIDTH]}... ({len(out)} characters)"


def _item(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _count(n: int) -> str:
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if n >= size:
            return f"{n / size:.2f}{unit}"
    return str(n)
