"""The architectures there are, from their own modules."""

from __future__ import annotations

from types import ModuleType

from llamapy.models import registry


def table() -> list[dict[str, str]]:
    """By name: what it keeps from token to token, and what tells it from others."""
    rows = []
    for module in map(registry.module_of, registry.modules()):
        name, what = registry.name_of(module)
        rows.append({"name": name, "cache": _cache(module), "what": what})
    return sorted(rows, key=lambda row: row["name"])


def _cache(module: ModuleType) -> str:
    """States, K and V (of all or of a window's cells), the latent form, or nothing."""
    if hasattr(module, "GIVES"):
        return "nothing: embeddings"
    cache = getattr(module, "cache", None)
    of = cache.__name__ if cache else ""
    kept = {"mla_cache": "latent", "unordered": "whole sequence"}.get(of, "K, V")
    if "attention.sliding_window" in getattr(module, "HANDLES", ()):
        kept += ", windows"
    if not hasattr(module, "states"):
        return kept
    return "states" if of == "no_attention" else f"{kept}, states"
