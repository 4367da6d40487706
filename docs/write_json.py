"""Writes docs/json.md, the fields of every JSON that a command prints, from the schemas in
llamapy/schemas/: `python docs/write_json.py`, or `make docs`. A test compares the two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llamapy

SCHEMAS = Path(llamapy.__file__).parent / "schemas"
PAGE = Path(__file__).parent / "json.md"
HEAD = """# JSON

What commands print with `--json`, and what they write into files of JSON, field by field. The
schemas (JSON Schema 2020-12) lie in `llamapy/schemas/`, in the package as well:

```python
import json
from importlib import resources

schema = json.loads(resources.files("llamapy").joinpath("schemas/run.json").read_text())
```

`schema_version` goes up when a field changes its meaning or goes away. New fields may come at any
time: read those you know. Tests hold what commands print against the schemas. A field that stands
in *italics* may be absent.
"""


def page() -> str:
    """All schemas, one after the other."""
    parts = [HEAD]
    for path in sorted(SCHEMAS.glob("*.json")):
        parts.append("\n".join(_schema(path.stem, json.loads(path.read_text()))) + "\n")
    return "\n".join(parts)


def _schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"## {schema['title']}"
    yield ""
    yield f"`llamapy/schemas/{name}.json`. {schema.get('description', '')}".rstrip()
    shown: set[str] = set()
    for part in schema.get("oneOf", [schema]):
        if part is not schema and "description" in part:
            yield ""
            yield part["description"]
        yield ""
        yield "| field | | |"
        yield "|---|---|---|"
        for field, kind, about in _fields(part, "", schema.get("$defs", {}), shown):
            yield f"| {field} | {kind} | {about.replace('|', chr(92) + '|')} |"


def _fields(
    part: dict[str, Any], under: str, defs: Any, shown: set[str]
) -> Iterator[tuple[str, str, str]]:
    """Field, type and meaning, those inside after those around them. Of a definition in `shown`
    they stand above; others are added to it."""
    for name, found in part.get("properties", {}).items():
        found = _resolved(found, defs)
        path = f"{under}{name}"
        field = f"`{path}`" if name in part.get("required", ()) else f"*`{path}`*"
        within, inside = _inside(found, path, defs)
        known = within.get("$ref", "") in shown
        about = [found.get("description", ""), "Its fields are as above." if known else ""]
        yield field, _kind(found, defs), " ".join(filter(None, about))
        if not known:
            shown |= {within["$ref"]} if "$ref" in within else set()
            yield from _fields(within, inside, defs, shown)


def _inside(found: dict[str, Any], path: str, defs: Any) -> tuple[dict[str, Any], str]:
    """What has fields of its own in it, and what their names begin with."""
    items = _resolved(found.get("items", {}), defs)
    values = found.get("additionalProperties")
    values = _resolved(values, defs) if isinstance(values, dict) else {}
    parts = ((found, f"{path}."), (items, f"{path}[]."), (values, f"{path}.*."))
    return next((p for p in parts if "properties" in p[0]), ({}, ""))


def _resolved(schema: dict[str, Any], defs: Any) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return {**defs[name], **schema} if name else schema


def _kind(schema: dict[str, Any], defs: Any) -> str:
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{v}`" for v in schema["enum"])
    types = schema.get("type", "any")
    types = [types] if isinstance(types, str) else types
    items = schema.get("items")
    words = []
    for word in types:
        if word == "array" and items:
            word = f"array of {_kind(_resolved(items, defs), defs)}"
        words.append(word)
    return ", ".join(words)


if __name__ == "__main__":
    PAGE.write_text(page())
