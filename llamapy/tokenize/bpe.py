"""BPE vocabularies: byte-level ones (`gpt2`) and raw ones with byte fallback (`gemma4`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from llamapy.base.errors import FileError
from llamapy.base.log import log
from llamapy.tokenize import bytemap
from llamapy.tokenize.api import Tokenizer
from llamapy.tokenize.keys import Keys, Strings, strings
from llamapy.tokenize.pre import BY_NAME, Pre, choose
from llamapy.tokenize.vocab import BYTE, NORMAL, UNUSED, Vocab, read_vocab

CHUNK = 1 << 18  # characters; the library's bookkeeping takes some 90 bytes for each
MERGES = "tokenizer.ggml.merges"


class ByteLevel(Tokenizer):
    """Merging on the bytes of a text, each written as one character (see bytemap.py)."""

    kind = "gpt2"

    def __init__(self, keys: Keys, vocab: Vocab, name: str, row: Pre) -> None:
        super().__init__(vocab)
        self.pre = name
        self.add_bos = keys.get_bool("tokenizer.ggml.add_bos_token", row.add_bos)
        self.add_eos = keys.get_bool("tokenizer.ggml.add_eos_token", False)
        self._cut = re.compile(row.cut)
        ids = _ids_of_pieces(vocab)
        self._byte_ids = self._bytes_of(ids)
        self._model = _model(ids, _merges(keys), row, self._raw())

    def _raw(self) -> bool:
        return False

    def _bytes_of(self, ids: dict[str, int]) -> dict[int, int]:
        return {b: ids[c] for b, c in enumerate(bytemap.CHARS) if c in ids}

    def _encode_run(self, text: str) -> list[int]:
        ids: list[int] = []
        for chunk in self._chunks(text):
            if self._lacks(chunk):
                ids += self._encode_lacking(chunk)
            else:
                ids += self._encode_known(chunk)
        return ids

    def _chunks(self, text: str) -> Iterator[str]:
        at = 0
        while len(text) - at > CHUNK:
            cut = self._cut.search(text, at + CHUNK)
            if cut is None:
                break
            yield text[at : cut.end()]
            at = cut.end()
        yield text[at:] if at else text

    def _lacks(self, text: str) -> bool:
        """True when `text` has bytes for which the vocabulary has no token (rare vocabularies)."""
        if len(self._byte_ids) == 256:
            return False
        return not self._byte_ids.keys() >= set(text.encode())

    def _encode_lacking(self, text: str) -> list[int]:
        """As if each character with such bytes were U+FFFD."""
        have = self._byte_ids.keys()
        return self._encode_known("".join(c if have >= set(c.encode()) else "\ufffd" for c in text))

    def _encode_known(self, text: str) -> list[int]:
        found: list[int] = self._model.encode(text, add_special_tokens=False).ids
        return found

    def _encode_byte(self, value: int) -> list[int]:
        """One id, or the ids of U+FFFD where the vocabulary cannot say this byte."""
        id = self._byte_ids.get(value)
        return self._encode_known("\ufffd") if id is None else [id]

    def _piece(self, id: int) -> bytes:
        if self.vocab.type[id] in (NORMAL, UNUSED) and id not in self.eog:
            return bytemap.to_bytes(self.vocab.text(id))
        return self.vocab.tokens[id]


class RawBpe(ByteLevel):
    """Merging on characters; a space is U+2581; what has no piece falls back to byte tokens."""

    kind = "gemma4"

    def _raw(self) -> bool:
        return True

    def _bytes_of(self, ids: dict[str, int]) -> dict[int, int]:
        return self.vocab.byte_ids

    def _lacks(self, text: str) -> bool:
        return False

    def _prepare(self, text: str, after_special: bool) -> str:
        return text.replace(" ", "▁")

    def _piece(self, id: int) -> bytes:
        text = self.vocab.tokens[id]
        if self.vocab.type[id] == BYTE and len(text) == 6:
            return bytes([int(text[3:5], 16)])
        return text.replace("▁".encode(), b" ") if self.vocab.type[id] == NORMAL else text


def load_bpe(keys: Keys, kind: str, asked: str | None, lenient: bool) -> ByteLevel:
    """Raises FileError: no merges, a merge of unknown pieces, an unknown pre-tokenizer."""
    vocab = read_vocab(keys, {})
    if kind == "gemma4":
        name, row, note = "gemma4", BY_NAME["gemma4"], ""
    else:
        name, row, note = choose(keys.get_str("tokenizer.ggml.pre", ""), asked, lenient)
    made = (RawBpe if kind == "gemma4" else ByteLevel)(keys, vocab, name, row)
    if note:
        made.notes.append(note)
        if asked is None:
            log.warn("W02", note)
    return made


def _ids_of_pieces(vocab: Vocab) -> dict[str, int]:
    """Piece to id, of equal ones the last id; an empty piece can stand for nothing."""
    texts = _texts(vocab.tokens)
    ids = dict(zip(texts, range(len(texts)), strict=True))
    ids.pop("", None)
    return ids


def _merges(keys: Keys) -> list[tuple[str, str]]:
    """Pairs, best first, each once. Raises FileError when there are none: then all text would fall
    apart into single bytes."""
    if MERGES not in keys.keys or len(keys.get_array(MERGES)) == 0:
        state = "empty" if MERGES in keys.keys else "missing"
        raise FileError(
            f"{MERGES} is {state}: a BPE vocabulary needs its merges; convert the model again"
        )
    lines = list(dict.fromkeys(_texts(strings(keys.get_array(MERGES)))))
    if {line.count(" ") for line in lines} == {1}:  # nearly every file: no piece holds a space
        halves = " ".join(lines).split(" ")
        if "" not in halves:
            return list(zip(halves[::2], halves[1::2], strict=True))
    return [_pair(line) for line in lines]


def _texts(pieces: Strings) -> list[str]:
    """All of `pieces` as text, in one go where no piece holds a line end or what is no UTF-8."""
    try:
        texts = pieces.joined().decode().split("\n") if len(pieces) else []
    except UnicodeDecodeError:
        return [t.decode("utf-8", "backslashreplace") for t in pieces.to_list()]
    return texts if len(texts) == len(pieces) else [t.decode() for t in pieces.to_list()]


def _pair(line: str) -> tuple[str, str]:
    pair = line.split(" ")
    if len(pair) == 2 and pair[0] and pair[1]:
        return pair[0], pair[1]
    left, _, right = line[1:].partition(" ")  # a piece may begin with a space
    if not right:
        raise FileError(f"{MERGES}: {line!r} is not two pieces and a space between them")
    return line[:1] + left, right


def _model(ids: dict[str, int], merges: Sequence[tuple[str, str]], row: Pre, raw: bool) -> Any:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    try:
        model = models.BPE(
            vocab=ids, merges=merges, ignore_merges=row.ignore_merges, byte_fallback=raw
        )
    except Exception as e:  # the library raises this very class
        raise FileError(_why_not(ids, merges) or f"{MERGES}: {e}") from None
    made = Tokenizer(model)
    steps: list[Any] = [pre_tokenizers.Split(Regex(r), "isolated") for r in row.regexes]
    if not raw:
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return made


def _why_not(ids: dict[str, int], merges: Sequence[tuple[str, str]]) -> str:
    for i, (left, right) in enumerate(merges):
        for piece in (left, right, left + right):
            if piece not in ids:
                return (
                    f"{MERGES}: entry {i} ({left!r} {right!r}) names {piece!r}, which is no token"
                )
    return ""
