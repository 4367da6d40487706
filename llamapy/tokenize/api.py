"""What a tokenizer is to the rest of the program, and the way from a file to one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property

from llamapy.base.errors import FileError, MemoryBudgetError, UsageError
from llamapy.base.log import log
from llamapy.tokenize.keys import Keys
from llamapy.tokenize.specials import Specials
from llamapy.tokenize.text import as_text, runs
from llamapy.tokenize.vocab import Vocab, read_vocab


class Tokenizer(ABC):
    """Ids of text and text of ids, by the rules of one file.

    `kind` is the file's `tokenizer.ggml.model`, `pre` the pre-tokenizer in use (BPE only). `eog`
    holds every id that ends a generation. `notes` says what was assumed where the file was silent
    or wrong.
    """

    kind: str
    pre: str | None = None
    add_bos = False
    add_eos = False

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self.notes: list[str] = list(vocab.problems)
        self._pieces: dict[int, bytes] = {}

    # ---- facts ------------------------------------------------------------------------------

    @property
    def n_vocab(self) -> int:
        return len(self.vocab)

    @property
    def eog(self) -> frozenset[int]:
        return self.vocab.eog

    @property
    def suppress(self) -> tuple[int, ...]:
        """Ids the file forbids to generate."""
        return self.vocab.suppress

    def role(self, name: str) -> int | None:
        """The id with a role: bos eos eot eom unk sep pad cls mask, fim_ pre suf mid pad rep
        sep.
        """
        return self.vocab.roles.get(name)

    @property
    def bos(self) -> int | None:
        return self.role("bos")

    @property
    def eos(self) -> int | None:
        return self.role("eos")

    @property
    def eot(self) -> int | None:
        return self.role("eot")

    @property
    def eom(self) -> int | None:
        return self.role("eom")

    @property
    def unk(self) -> int | None:
        return self.role("unk")

    @property
    def sep(self) -> int | None:
        return self.role("sep")

    @property
    def pad(self) -> int | None:
        return self.role("pad")

    def token_type(self, id: int) -> int:
        """1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte; as the file has it."""
        return int(self.vocab.type[self._check(id)])

    def is_control(self, id: int) -> bool:
        """True for ids that print nothing unless specials are asked for."""
        return self.vocab.is_control(self._check(id))

    # ---- text to ids ------------------------------------------------------------------------

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        """Ids of `text`. Never fails on bytes that are no UTF-8; MemoryBudgetError for a text that
        takes more memory than the system gives.

        `add_special` adds BOS and EOS where the file asks for them, never a second one.
        `parse_special` reads the text of control tokens as these tokens; otherwise it stays text.
        """
        try:
            ids = self._encode(as_text(text), parse_special)
            return self.with_ends(ids) if add_special else ids
        except (MemoryError, OverflowError):
            raise MemoryBudgetError(
                f"a text of {len(text)} {'characters' if isinstance(text, str) else 'bytes'} takes "
                "more memory to tokenise than there is: give less at a time"
            ) from None

    def _encode(self, text: str, parse_special: bool) -> list[int]:
        ids: list[int] = []
        after_special = True
        for part in self._finder(parse_special).split(text):
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._encode_part(part, after_special)
            after_special = isinstance(part, int)
        return ids

    def specials_in(self, text: str | bytes) -> list[str]:
        """Texts of control tokens that stand in `text`: what `parse_special` would read as such."""
        return self._control_finder.found_in(as_text(text))

    def with_ends(self, ids: Sequence[int]) -> list[int]:
        """`ids` with BOS before and EOS behind where the file asks for them and they lack."""
        out = list(ids)
        if self.add_bos and self.bos is not None and out[:1] != [self.bos]:
            out.insert(0, self.bos)
        if self.add_eos and self.eos is not None and out[-1:] != [self.eos]:
            out.append(self.eos)
        return out

    def _encode_part(self, text: str, after_special: bool) -> list[int]:
        """Ids of a stretch without special tokens; `text` is not empty and may hold escaped
        bytes.
        """
        ids: list[int] = []
        for run in runs(self._prepare(text, after_special)):
            ids += self._encode_byte(run) if isinstance(run, int) else self._encode_run(run)
        return ids

    def _prepare(self, text: str, after_special: bool) -> str:
        return text

    @abstractmethod
    def _encode_run(self, text: str) -> list[int]:
        """Ids of a stretch of proper text."""

    @abstractmethod
    def _encode_byte(self, value: int) -> list[int]:
        """Ids of one byte that belongs to no character."""

    def _finder(self, parse_special: bool) -> Specials:
        return self._all_finder if parse_special else self._user_finder

    @cached_property
    def _all_finder(self) -> Specials:
        return self._specials(control=True, user=True)

    @cached_property
    def _user_finder(self) -> Specials:
        return self._specials(control=False, user=True)

    @cached_property
    def _control_finder(self) -> Specials:
        return self._specials(control=True, user=False)

    def _specials(self, *, control: bool, user: bool) -> Specials:
        return self.vocab.specials(control=control, user=user)

    # ---- ids to text ------------------------------------------------------------------------

    def piece(self, id: int, special: bool = False) -> bytes:
        """The bytes of one token. Control tokens have none unless `special`."""
        found = self._pieces.get(id)
        if found is None:
            found = self._pieces[id] = self._piece(self._check(id))
        return found if special or not self.vocab.is_control(id) else b""

    def pieces(self, ids: Iterable[int], *, special: bool = False) -> list[bytes]:
        """What each of `ids` adds to the text, in their order."""
        return [self.piece(int(i), special) for i in ids]

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        """The text of `ids`."""
        return b"".join(self.pieces(ids, special=special))

    @abstractmethod
    def _piece(self, id: int) -> bytes:
        """The bytes of one token; those of a control token are its own text."""

    def _check(self, id: int) -> int:
        if not 0 <= id < self.n_vocab:
            raise UsageError(f"token id {id} is outside the vocabulary (0 to {self.n_vocab - 1})")
        return id


class IdsOnly(Tokenizer):
    """A vocabulary without a way from text to ids: models of kind `none` and `test`."""

    def __init__(self, kind: str, vocab: Vocab, why: str) -> None:
        super().__init__(vocab)
        self.kind, self.why = kind, why

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        raise UsageError(f"{self.why}: text cannot be tokenised; give token ids (--tokens)")

    def _encode_run(self, text: str) -> list[int]:
        return self.encode(text)

    def _encode_byte(self, value: int) -> list[int]:
        return self.encode(b"")

    def _piece(self, id: int) -> bytes:
        return self.vocab.tokens[id]


def load(keys: Keys, *, pre: str | None = None, lenient: bool = False) -> Tokenizer:
    """The tokenizer of an opened file; it outlives the file.

    `pre` overrules the file's pre-tokenizer; `lenient` takes the default one for an unknown name
    and says so. Raises FileError when the file's vocabulary cannot work, UsageError for an unknown
    `pre`.
    """
    kind = keys.get_str("tokenizer.ggml.model", "none")
    if kind == "llama":
        from llamapy.tokenize.spm import SentencePiece

        made: Tokenizer = SentencePiece(keys)
    elif kind in ("gpt2", "gemma4"):
        from llamapy.tokenize.bpe import load_bpe

        made = load_bpe(keys, kind, pre, lenient)
    elif kind == "bert":
        from llamapy.tokenize.wpm import WordPiece

        made = WordPiece(keys)
    elif kind == "t5":
        from llamapy.tokenize.unigram import Unigram

        made = Unigram(keys)
    elif kind == "rwkv":
        from llamapy.tokenize.rwkv import Rwkv

        made = Rwkv(keys)
    elif kind in ("none", "test", "no_vocab"):
        why = f"this model's vocabulary has no text (tokenizer model '{kind}')"
        made = IdsOnly(kind, _ids_vocab(keys), why)
    else:
        made = IdsOnly(kind, read_vocab(keys, {}), f"tokenizer model '{kind}' is not supported yet")
    for note in made.vocab.problems:
        log.warn("W01", note)
    return made


def _ids_vocab(keys: Keys) -> Vocab:
    if "tokenizer.ggml.tokens" in keys.keys:
        return read_vocab(keys, {})
    arch = keys.get_str("general.architecture", "")
    size_key = f"{arch}.vocab_size"
    if size_key not in keys.keys:
        raise FileError(f"the file has neither tokens nor '{size_key}': its vocabulary is unknown")
    from llamapy.tokenize.vocab import nameless

    return nameless(keys.get_int(size_key))
