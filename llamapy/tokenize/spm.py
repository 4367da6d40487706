"""SentencePiece vocabularies (`llama`): merging by score with byte fallback.

The library's own model is written here from the file's pieces, scores and types: a ModelProto in
protobuf's wire format. No normalisation but the escape of spaces; what the file says about spaces
is done here, so that it holds after special tokens too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from llamapy.base.errors import FileError
from llamapy.tokenize.keys import Bytes, Keys, Strings
from llamapy.tokenize.roles import BY_CONVENTION
from llamapy.tokenize.spaced import SPACE, Spaced
from llamapy.tokenize.specials import Specials
from llamapy.tokenize.text import as_text
from llamapy.tokenize.vocab import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Vocab,
    read_vocab,
)


class SentencePiece(Spaced):
    kind = "llama"

    def __init__(self, keys: Keys) -> None:
        """Raises FileError when the pieces cannot make a model."""
        super().__init__(read_vocab(keys, BY_CONVENTION["llama"]))
        self.add_bos = keys.get_bool("tokenizer.ggml.add_bos_token", True)
        self.add_eos = keys.get_bool("tokenizer.ggml.add_eos_token", False)
        self.space_prefix = keys.get_bool("tokenizer.ggml.add_space_prefix", True)
        self.squeeze = keys.get_bool("tokenizer.ggml.remove_extra_whitespaces", False)
        self._rstrip = _rstrip_ids(keys, self.vocab)
        # Where a special token changes nothing in the text around it, the library finds the
        # user-defined ones itself, in its own trie.
        self._native = not self.space_prefix and not self._rstrip
        self._processor = _processor(self.vocab, self._native)

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """As ever; but user-defined runs of spaces are spaces in the text, never its U+2581."""
        if self._native and "▁" in as_text(text):
            twin = self._unescaped
            return twin.encode(text, add_special=add_special, parse_special=parse_special)
        return super().encode(text, add_special=add_special, parse_special=parse_special)

    @cached_property
    def _unescaped(self) -> SentencePiece:
        """This tokenizer with a library model that knows no user-defined tokens (rarely needed)."""
        twin = copy(self)
        twin._native, twin._processor = False, _processor(self.vocab, False)
        return twin

    def _prepare(self, text: str, after_special: bool) -> str:
        if self.squeeze:
            text = re.sub(" +", " ", text.strip(" "))
        return " " + text if self.space_prefix and after_special and text else text

    def _encode_run(self, text: str) -> list[int]:
        return self._processor(text.encode())

    def _encode_byte(self, value: int) -> list[int]:
        id = self.vocab.byte_ids.get(value, self.unk)
        return [] if id is None else [id]

    def _finder(self, parse_special: bool) -> Specials:
        if not self._native:
            return super()._finder(parse_special)
        return self._control_finder if parse_special else Specials(())

    def _specials(self, *, control: bool, user: bool) -> Specials:
        return self.vocab.specials(control=control, user=user, rstrip=self._rstrip)


def _rstrip_ids(keys: Keys, vocab: Vocab) -> frozenset[int]:
    """Phi-3's special tokens swallow the white space behind them; no key says so, the name does."""
    name = keys.get_str("general.name", "").lower()
    if "phi-3" not in name and "phi3" not in name:
        return frozenset()
    kept = {b"<unk>", b"<s>", b"<|endoftext|>"}
    ids = vocab.ids_of(CONTROL, UNKNOWN, USER_DEFINED)
    return frozenset(i for i in ids if vocab.tokens[i] not in kept)


def _processor(vocab: Vocab, user_defined: bool) -> Callable[[bytes], list[int]]:
    """The library's encoder. Without `user_defined` these tokens are left to the caller."""
    import sentencepiece

    pieces, types, fallback = _sound(vocab)
    if not user_defined:
        types[types == USER_DEFINED] = CONTROL
    processor: Any = sentencepiece.SentencePieceProcessor()
    try:
        try:
            processor.LoadFromSerializedProto(model_proto(pieces, vocab.score, types, fallback))
        except RuntimeError:
            pieces = _renamed(pieces, _repeated(pieces), b"[REPEATED_%d]")
            processor.LoadFromSerializedProto(model_proto(pieces, vocab.score, types, fallback))
    except RuntimeError as e:
        raise FileError(f"the vocabulary makes no sentencepiece model: {e}") from None
    encode: Callable[[bytes], list[int]] = processor.EncodeAsIds
    return encode


def _sound(vocab: Vocab) -> tuple[Strings, Bytes, bool]:
    """Pieces and types that the library takes: one unknown token, no empty piece, all bytes or
    none.
    """
    types = np.where((vocab.type >= NORMAL) & (vocab.type <= BYTE), vocab.type, NORMAL)
    types = types.astype(np.uint8)
    unknown = vocab.roles.get("unk")
    if unknown is None:
        unknown = next(iter(vocab.ids_of(UNKNOWN)), 0)
    types[types == UNKNOWN] = CONTROL
    for id in vocab.eog:  # text that looks like an end mark must not become one
        types[id] = CONTROL
    types[unknown] = UNKNOWN
    known = vocab.byte_ids
    types[types == BYTE] = CONTROL
    fallback = len(known) == 256
    if fallback:
        types[list(known.values())] = BYTE
    empty = np.flatnonzero(vocab.tokens.size == 0)
    types[empty] = np.where(types[empty] == UNKNOWN, UNKNOWN, CONTROL)
    pieces = _renamed(vocab.tokens, empty.tolist(), b"[EMPTY_%d]")
    spaced = [i for i in vocab.ids_of(USER_DEFINED) if b" " in vocab.tokens[i]]
    escaped = {i: vocab.tokens[i].replace(b" ", SPACE) for i in spaced}
    return _replaced(pieces, escaped), types, fallback


def _repeated(pieces: Strings) -> list[int]:
    """All but the last of equal pieces."""
    last = {text: i for i, text in enumerate(pieces.to_list())}
    return [i for i, text in enumerate(pieces.to_list()) if last[text] != i]


def _renamed(pieces: Strings, ids: Iterable[int], pattern: bytes) -> Strings:
    return _replaced(pieces, {i: pattern % i for i in ids})


def _replaced(pieces: Strings, texts: dict[int, bytes]) -> Strings:
    """`pieces` with other texts for some ids; these stand at the end of the block."""
    if not texts:
        return pieces
    start, size = pieces.start.copy(), pieces.size.copy()
    at = len(pieces.block)
    for i, text in texts.items():
        start[i], size[i] = at, len(text)
        at += len(text)
    return Strings(pieces.block + b"".join(texts.values()), start, size)


# ---- ModelProto ---------------------------------------------------------------
#
# message ModelProto   { repeated SentencePiece pieces = 1; TrainerSpec trainer_spec = 2;
#                        NormalizerSpec normalizer_spec = 3; }
# message SentencePiece { string piece = 1; float score = 2; Type type = 3; }
# TrainerSpec: model_type = 3 (2: BPE), byte_fallback = 35.
# NormalizerSpec: name = 1, add_dummy_prefix = 3, remove_extra_whitespaces = 4, escape_whitespaces =
# 5.


def model_proto(pieces: Strings, score: Any, types: Bytes, byte_fallback: bool) -> bytes:
    """The wire bytes of a BPE model with an identity normaliser."""
    trainer = _varint(3, 2) + _varint(35, int(byte_fallback))
    normalizer = _field(1, b"identity") + _varint(3, 0) + _varint(4, 0) + _varint(5, 1)
    return _pieces_wire(pieces, score, types) + _field(2, trainer) + _field(3, normalizer)


def _number(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _varint(tag: int, value: int) -> bytes:
    return _number(tag << 3) + _number(value)


def _field(tag: int, body: bytes) -> bytes:
    return _number(tag << 3 | 2) + _number(len(body)) + body


# One piece on the wire: a head (tag, length of the record, tag, length of the text), the text, a
# tail (tag, score, tag, type). Lengths take four bytes always, which the format allows (a varint
# may be longer than it need be): so what is not text has one shape, and numpy can write all records
# at once.
_FRAME = np.dtype(
    [
        ("piece", "u1"),
        ("record", "u1", 4),
        ("text", "u1"),
        ("length", "u1", 4),
        ("score_tag", "u1"),
        ("score", "<f4"),
        ("type_tag", "u1"),
        ("type", "u1"),
    ]
)
_HEAD, _TAIL = 10, 7  # bytes of a frame before and after the text


def _lengths(n: Any) -> Bytes:
    """Four-byte varints of `n` (below 2^28): uint8 `[len(n), 4]`."""
    shifted = n[:, None] >> np.array([0, 7, 14, 21])
    wire: Bytes = ((shifted & 0x7F) | np.array([0x80, 0x80, 0x80, 0])).astype(np.uint8)
    return wire


def _pieces_wire(pieces: Strings, score: Any, types: Bytes) -> bytes:
    n, size = len(pieces), pieces.size
    frame = np.empty(n, _FRAME)
    frame["piece"], frame["text"] = 0x0A, 0x0A
    frame["score_tag"], frame["type_tag"] = 0x15, 0x18
    frame["record"], frame["length"] = _lengths(size + _HEAD - 5 + _TAIL), _lengths(size)
    frame["score"], frame["type"] = score, types
    spans = np.empty((n, 3), np.int64)
    spans[:, 0], spans[:, 1], spans[:, 2] = _HEAD, size, _TAIL
    is_text = np.repeat(np.tile([False, True, False], n), spans.ravel())
    before = np.cumsum(size) - size
    source = np.repeat(pieces.start - before, size)
    source += np.arange(len(source))
    out = np.empty(len(is_text), np.uint8)
    out[is_text] = pieces.array[source]
    out[~is_text] = frame.view(np.uint8)
    return out.tobytes()
