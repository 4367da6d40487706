"""A base to compare with: what one model says of every scored token of a text, in a file.

All numbers little-endian. 16 bytes MAGIC; u32 version, u32 bytes of the header, u32 crc32 of the
header, u32 0; the header, JSON; the text's tokens, i32; then for every window in order: u64 bytes
of its records, u32 crc32 of them, u32 number of the window; a record for every scored token
(native/src/kept.h). The file ends with the last record.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from llamapy.app.evaluate.ledger import json_object
from llamapy.app.evaluate.perplexity import Place
from llamapy.app.evaluate.windows import Windows, token_hash
from llamapy.base.closing import Closing
from llamapy.base.errors import FileError, UsageError
from llamapy.ffi.kept import HEAD, Beside, Bytes, beside, cut, most_bytes
from llamapy.ffi.softmax import Ints, Rows, Workers

MAGIC = b"llamapy kl base\n"
VERSION = 1
PREFIX, BLOCK = struct.Struct("<16s4I"), struct.Struct("<QII")
MOST_HEADER = 1 << 20


def piece_hash(tokenizer: Any, w: Windows) -> str:
    """sha256 (hex) of what the tokens spell, which tells one vocabulary from another."""
    pieces = {i: tokenizer.piece(i, special=True) for i in set(w.tokens.tolist())}
    return hashlib.sha256(b"".join(pieces[i] for i in w.tokens.tolist())).hexdigest()


class Base(Closing):
    """A Witness that compares with the base in a file. Nothing in the file is believed before it is
    checked: FileError for one that is none or is damaged, UsageError for one of another vocabulary.
    `header` is what it says of itself."""

    def __init__(self, path: str, model: Any) -> None:
        self.path = path
        try:
            self._file = open(path, "rb")  # noqa: SIM115
            self._size = os.fstat(self._file.fileno()).st_size
        except OSError as e:
            raise FileError(f"cannot read {path}: {e.strerror}") from e
        try:
            self._n_vocab: int = model.hparams.n_vocab
            self.header, tokens = self._head()
            self.w = self._windows(tokens)
            self._at = [*self._blocks()]
            if self.header["text"] != piece_hash(model.tokenizer, self.w):
                raise UsageError(f"{path}: a base of another vocabulary than this model's")
        except BaseException:
            self.close()
            raise
        self._cached: tuple[int, list[Bytes]] = -1, []
        self._found: dict[int, list[Beside]] = {}

    @property
    def about(self) -> dict[str, Any]:
        """Whose base it is."""
        return {name: self.header.get(name) for name in ("model", "type_k", "type_v")}

    def same_text(self, ids: Ints) -> bool:
        return bool(np.array_equal(ids, self.w.tokens))

    def close(self) -> None:
        self._file.close()

    def _bad(self, what: str) -> FileError:
        return FileError(f"{self.path}: {what}; write it again with --kl-base")

    def _take(self, n: int, what: str) -> bytes:
        left = self._size - self._file.tell()
        data = self._file.read(n) if n <= left else b""
        if len(data) < n:
            raise self._bad(f"ends within {what}: {n - left} bytes are missing")
        return data

    def _head(self) -> tuple[dict[str, Any], Any]:
        start = self._file.read(PREFIX.size)
        if len(start) < PREFIX.size or not start.startswith(MAGIC):
            raise self._bad("is no base to compare with")
        _, version, n_bytes, crc, _ = PREFIX.unpack(start)
        if version != VERSION:
            raise self._bad(f"is of version {version}, and {VERSION} is known")
        if n_bytes > MOST_HEADER:
            raise self._bad(f"has a header of {n_bytes} bytes")
        raw = self._take(n_bytes, "its header")
        if zlib.crc32(raw) != crc:
            raise self._bad("has a damaged header")
        header = json_object(raw) or {}
        n_tokens = header.get("n_tokens")
        if type(n_tokens) is not int or n_tokens < 2:
            raise self._bad(f"has {n_tokens} tokens")
        tokens = np.frombuffer(self._take(4 * n_tokens, "its tokens"), "<i4").astype(np.int32)
        if token_hash(tokens) != header.get("tokens"):
            raise self._bad("has damaged tokens")
        return header, tokens

    def _windows(self, tokens: Any) -> Windows:
        h = self.header
        if h.get("byte_order") != sys.byteorder:
            raise self._bad(f"was written by a machine of {h.get('byte_order')}-endian numbers")
        size, step, n, n_vocab = (_count(h, x) for x in ("n_ctx", "stride", "n_chunks", "n_vocab"))
        if not size * step * n * n_vocab:
            raise self._bad("has a damaged header")
        bos = h.get("bos")
        if n_vocab != self._n_vocab:
            raise UsageError(
                f"{self.path}: a base over {n_vocab} tokens; this model knows {self._n_vocab}"
            )
        ids = [int(tokens.min()), int(tokens.max()), 0 if bos is None else bos]
        known = h.get("method") in ("llamacpp", "llamacpp-stride", "hf")
        if not known or not all(type(i) is int and 0 <= i < n_vocab for i in ids):
            raise self._bad("has a damaged header")
        w = Windows(tokens, h["method"], size, step, n, bos)
        if step > size or (n - 1) * step + 1 >= len(tokens):
            raise self._bad("has windows behind the end of its text")
        whole = {**w.describe(), "n_chunks": n, "n_vocab": n_vocab}
        if any(h.get(k) != v for k, v in whole.items()) or w.span(n - 1).n_scored < 1:
            raise self._bad("has windows that do not fit its text")
        return w

    def _blocks(self) -> list[tuple[int, int, int]]:
        """Of every window: where its records lie, their bytes, their crc32."""
        out = []
        most = most_bytes(self._n_vocab)
        for i in range(self.w.n):
            n_bytes, crc, index = BLOCK.unpack(self._take(BLOCK.size, f"window {i + 1}"))
            n = self.w.span(i).n_scored
            if index != i or not n * HEAD.itemsize <= n_bytes <= n * most:
                raise self._bad(f"window {i + 1} is damaged")
            at = self._file.tell()
            if n_bytes > self._size - at:
                raise self._bad(f"ends within window {i + 1}: {at + n_bytes - self._size} missing")
            out.append((at, n_bytes, crc))
            self._file.seek(at + n_bytes)
        if self._file.tell() != self._size:
            raise self._bad(f"has {self._size - self._file.tell()} bytes behind its end")
        return out

    def _records(self, window: int) -> list[Bytes]:
        if self._cached[0] != window:
            at, n_bytes, crc = self._at[window]
            self._cached = -1, []  # before there are more
            self._file.seek(at)
            data = np.fromfile(self._file, np.uint8, n_bytes)
            found = None
            if len(data) == n_bytes and zlib.crc32(data.data) == crc:
                found = cut(data, self.w.span(window).n_scored, self._n_vocab)
            if found is None:
                raise self._bad(f"window {window + 1} is damaged")
            self._cached = window, found
        return self._cached[1]

    def see(
        self, rows: Rows, nll: Sequence[float], places: Sequence[Place], workers: Workers
    ) -> None:
        records = [self._records(window)[i] for window, i in places]
        found = beside(rows, records, workers)
        if found is None:
            raise self._bad(f"window {places[0][0] + 1} is damaged, or one after it")
        for (window, _), b in zip(places, found, strict=True):
            self._found.setdefault(window, []).append(b)

    def end(self, index: int) -> tuple[Beside, ...]:
        return tuple(self._found.pop(index))


def _count(header: dict[str, Any], name: str) -> int:
    """0 for what is no number of things."""
    value = header.get(name)
    return value if type(value) is int and 0 < value < 1 << 31 else 0
