"""A model that is a script: byte tokens, and logits that want the next byte of a given answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from llamapy.base.errors import KernelError
from llamapy.loader.repack import Repacked
from llamapy.loader.stacks import Stacks
from llamapy.runtime.batch import Batch

BOS, EOS, WORD = 256, 257, 258
SPECIALS = {"<bos>": BOS, "<eos>": EOS}
PIECES = {BOS: b"<bos>", EOS: b"<eos>", WORD: " wörd".encode()}
N_VOCAB = 259


class FakeTokenizer:
    """Ids 0 to 255 are bytes; WORD is a token of six bytes."""

    n_vocab = N_VOCAB
    eog = frozenset({EOS})
    suppress: tuple[int, ...] = ()

    def __init__(self, bos: int | None = BOS, add_bos: bool = True) -> None:
        self.bos, self.add_bos = bos, add_bos

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        ids: list[int] = [self.bos] if add_special and self.add_bos and self.bos else []
        while raw:
            name = next((s for s in SPECIALS if raw.startswith(s.encode())), None)
            if parse_special and name:
                ids.append(SPECIALS[name])
                raw = raw[len(name) :]
            else:
                ids.append(raw[0])
                raw = raw[1:]
        return ids

    def specials_in(self, text: str | bytes) -> list[str]:
        raw = text if isinstance(text, bytes) else text.encode()
        return [s for s in SPECIALS if s.encode() in raw]

    def piece(self, id: int, special: bool = False) -> bytes:
        if id < 256:
            return bytes([id])
        return PIECES[id] if special or id == WORD else b""


@dataclass
class FakeContext:
    """`answer` is given token by token, then EOS. `seen` are all tokens decoded, in order."""

    answer: Sequence[int]
    options: dict[str, Any]
    on_decode: Callable[[list[int]], None]
    isa: str = "scalar"
    n_threads: int = 1
    seen: list[int] = field(default_factory=list)
    calls: list[tuple[int, str]] = field(default_factory=list)
    counters: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(built=2, reused=3))
    broken: bool = False
    n_given: int = 0

    def decode(self, tokens: Sequence[int], *, logits: str = "last", copy: bool = True) -> Any:
        self.on_decode(list(tokens))
        assert len(self.seen) + len(tokens) <= self.options["n_ctx"], "more than the context holds"
        self.seen += tokens
        self.calls.append((len(tokens), logits))
        n = {"last": 1, "all": len(tokens), "none": 0}[logits]
        out = np.zeros((n, N_VOCAB), np.float32)
        for row in out:
            row[self.answer[self.n_given] if self.n_given < len(self.answer) else EOS] = 50.0
        if self.broken:
            out[...] = np.nan
        self.n_given += logits == "last"
        return out

    def n_past(self, seq_id: int = 0) -> int:
        return len(self.seen)

    def dump_graph(self, kind: str, format: str) -> str:
        return f'{{"kind": "{kind}"}}' if format == "json" else f"{kind} as {format}"


def says(history: list[int]) -> Any:
    """Logits that depend on all that a sequence has seen."""
    return np.random.default_rng(history).normal(0, 3, N_VOCAB).astype(np.float32)


class HistoryContext(FakeContext):
    """Sequences by number, tokens of several among them; each says what its history says. Fails in
    place of call number `fail_at`; `spoil` may change what a call gives."""

    fail_at = -1

    def clear(self) -> None:
        self.of: dict[int, list[int]] = {}

    def spoil(self, out: list[Any]) -> None: ...

    def decode_batch(self, batch: Batch) -> Any:
        if len(self.calls) == self.fail_at:
            raise KernelError("no more")
        self.calls.append((batch.n_tokens, str(batch.n_outputs)))
        out = []
        for token, pos, seqs, want in zip(
            batch.tokens.tolist(), batch.pos, batch.seqs, batch.want, strict=True
        ):
            assert max(seqs) < self.options["n_seq_max"]
            for seq in seqs:
                history = self.of.setdefault(seq, [])
                assert pos == len(history)
                history.append(token)
            if want:
                out.append(says(self.of[seqs[0]]))
        self.spoil(out)
        return np.array(out, np.float32).reshape(len(out), N_VOCAB)


class FakeModel:
    """As much of `llamapy.api.Model` as commands use. `contexts` are those opened so far."""

    def __init__(
        self,
        answer: bytes | Sequence[int] = b"",
        *,
        tokenizer: FakeTokenizer | None = None,
        n_ctx_train: int = 2048,
        on_decode: Callable[[list[int]], None] = lambda tokens: None,
        broken: bool = False,
        path: Path = Path("fake.gguf"),
    ) -> None:
        self.answer = list(answer)
        self.tokenizer = tokenizer or FakeTokenizer()
        self.hparams = SimpleNamespace(n_ctx_train=n_ctx_train, n_vocab=N_VOCAB, stacks=Stacks())
        self.gguf = SimpleNamespace(
            path=path,
            keys={},
            view=memoryview(b"GGUF" * 9),
            data_offset=8,
            get_str=lambda k: "fake",
        )
        self.warnings: list[str] = []
        self.on_decode, self.broken = on_decode, broken
        self.contexts: list[FakeContext] = []
        self.n_open = 0
        self.repacked = Repacked("auto")
        self.weights = SimpleNamespace(n_bytes=0)
        self.on_repack: Callable[[Callable[[str, int, int], None]], Any] = lambda progress: None
        self.told: list[int] = []  # how many tokens were announced

    def will_generate(
        self,
        n_tokens: int,
        interrupted: Callable[[], bool],
        progress: Callable[[str, int, int], None],
    ) -> None:
        self.told.append(n_tokens)
        self.on_repack(progress)

    @contextmanager
    def context(self, **options: Any) -> Iterator[FakeContext]:
        ctx = FakeContext(self.answer, options, self.on_decode, broken=self.broken)
        self.contexts.append(ctx)
        self.n_open += 1
        yield ctx
        self.n_open -= 1

    def __enter__(self) -> FakeModel:
        return self

    def __exit__(self, *error: object) -> None:
        pass
