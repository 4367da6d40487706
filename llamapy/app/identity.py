"""Which model file was it: a hash that costs milliseconds, for results and caches."""

from __future__ import annotations

import hashlib
from typing import Any

SAMPLE_BYTES = 1 << 16


def model_hash(gguf: Any) -> str:
    """sha256 (hex) over each shard's size, header (keys and tensor table), and the first and last
    64 KiB of its data. Equal files have equal hashes; it is no guard against tampering."""
    digest = hashlib.sha256()
    for shard in getattr(gguf, "shards", [gguf]):
        view, start = shard.view, shard.data_offset
        digest.update(len(view).to_bytes(8, "little"))
        digest.update(view[:start])
        digest.update(view[start : start + SAMPLE_BYTES])
        digest.update(view[max(start, len(view) - SAMPLE_BYTES) :])
    return digest.hexdigest()
