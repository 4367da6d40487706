"""A model that is a script: byte tokens, and logits that want the next byte of a given answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from llamapy.loader.repack import Repacked
from llamapy.loader.stacks import Stacks

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

    def decode(self, tokens: Sequence[int], *, logits: str = "last") -> Any:
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
