"""Questions with given answers, in the files that llama-perplexity reads.

HellaSwag: text, six lines a task (context, number of the right ending from 0, four endings).
Winogrande: CSV, `index,sentence with _,choice,choice,number of the right one from 1`, the sentence
in quotes where it has commas. Multiple choice: binary, little-endian: u32 n, u32 offsets[n] from
the start of the file, there a question and two sets of answers: u32 n, the texts, i32 labels[n], of
which 1 marks the right one; every text is u32 bytes and the bytes. The second set is not used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from llamapy.base.errors import UsageError

MOST_ANSWERS = 100
HELLASWAG_TASKS = 400  # unless another number is asked for


@dataclass(frozen=True, slots=True)
class Task:
    """`index` counts from 0 in the file. Each text is an answer in its place; the scored part of it
    is what differs, or with `heads` (what comes up to the answer's end) what follows."""

    index: int
    texts: tuple[bytes, ...]
    gold: int
    heads: tuple[bytes, ...] = ()


def hellaswag(raw: bytes) -> list[Task]:
    lines = raw.removesuffix(b"\n").split(b"\n")
    if len(lines) % 6:
        raise UsageError(f"HellaSwag: {len(lines)} lines, which are no tasks of six lines each")
    return [_hellaswag(i, lines[6 * i : 6 * i + 6]) for i in range(len(lines) // 6)]


def _hellaswag(i: int, lines: list[bytes]) -> Task:
    context, gold, *endings = (line.removesuffix(b"\r") for line in lines)
    if gold.strip() not in (b"0", b"1", b"2", b"3"):
        raise UsageError(f"HellaSwag: line {6 * i + 2} must be the number of an ending, 0 to 3")
    return Task(i, tuple(context + b" " + ending for ending in endings), int(gold))


def winogrande(raw: bytes) -> list[Task]:
    lines = enumerate(raw.removesuffix(b"\n").split(b"\n"), 1)
    return [_winogrande(i, number, line) for i, (number, line) in enumerate(lines)]


def _winogrande(i: int, number: int, line: bytes) -> Task:
    fields = _fields(line.removesuffix(b"\r"))
    if len(fields) != 5 or fields[1].count(b"_") < 1 or fields[4].strip() not in (b"1", b"2"):
        raise UsageError(
            f"Winogrande: line {number} is not 'index,sentence with _,choice,choice,1 or 2'"
        )
    _, sentence, *choices, answer = fields
    before, _, after = sentence.partition(b"_")
    heads = tuple(before + choice for choice in choices)
    return Task(i, tuple(head + after for head in heads), int(answer) - 1, heads)


def _fields(line: bytes) -> list[bytes]:
    """Five fields: commas within quotes separate nothing, quotes around the sentence go."""
    cuts, quoted = [-1], False
    for at, byte in enumerate(line):
        quoted ^= byte == 0x22
        if byte == 0x2C and not quoted and len(cuts) < 5:
            cuts.append(at)
    fields = [line[a + 1 : b] for a, b in zip(cuts, [*cuts[1:], len(line)], strict=True)]
    if len(fields) == 5 and fields[1][:1] == b'"' == fields[1][-1:]:
        fields[1] = fields[1][1:-1]
    return fields


def multiple_choice(raw: bytes) -> list[Task]:
    reader = _Reader(raw)
    n = reader.number()
    if n > (len(raw) - 4) // 4:
        raise UsageError(f"multiple choice: {len(raw)} bytes cannot hold {n} tasks")
    offsets = [reader.number() for _ in range(n)]
    return [_multiple_choice(i, _Reader(raw, at, i + 1)) for i, at in enumerate(offsets)]


def _multiple_choice(i: int, reader: _Reader) -> Task:
    question = reader.text()
    answers, labels = reader.answers()
    reader.answers()
    if not question or not answers or not all(answers) or labels.count(1) != 1:
        raise UsageError(f"multiple choice: task {i + 1} has no question, answers, or right answer")
    return Task(i, tuple(question + b" " + answer for answer in answers), labels.index(1))


class _Reader:
    """Numbers and texts one after the other; UsageError where the file ends before."""

    def __init__(self, raw: bytes, at: int = 0, task: int = 0) -> None:
        self._raw, self._at, self._task = raw, at, task

    def take(self, n: int) -> bytes:
        if n > len(self._raw) - self._at:
            where = f"task {self._task}" if self._task else "the offsets"
            raise UsageError(f"multiple choice: the file ends within {where}")
        self._at += n
        return self._raw[self._at - n : self._at]

    def number(self) -> int:
        (value,) = struct.unpack("<I", self.take(4))
        return int(value)

    def text(self) -> bytes:
        return self.take(self.number())

    def answers(self) -> tuple[list[bytes], list[int]]:
        n = self.number()
        if n > MOST_ANSWERS:
            raise UsageError(f"multiple choice: task {self._task} has {n} answers")
        texts = [self.text() for _ in range(n)]
        return texts, list(struct.unpack(f"<{n}i", self.take(4 * n)))


READERS: dict[str, Callable[[bytes], list[Task]]] = {
    "hellaswag": hellaswag,
    "winogrande": winogrande,
    "multiple-choice": multiple_choice,
}


def draw(kind: str, tasks: Sequence[Task], n: int | None) -> list[Task]:
    """The tasks llama-perplexity draws, in its order: always some of HellaSwag, of the others when
    `n` leaves some out (None or 0: its default, 400 of HellaSwag, all of the others)."""
    n = min(n or (HELLASWAG_TASKS if kind == "hellaswag" else len(tasks)), len(tasks))
    if kind != "hellaswag" and n == len(tasks):
        return list(tasks)
    # llama-perplexity never reads the last line of a Winogrande file, so that none is drawn.
    left, out = list(tasks[:-1] if kind == "winogrande" else tasks), []
    # The generator of std::mt19937 rng(1).
    words = np.random.RandomState(1)
    for _ in range(n):
        if kind == "hellaswag":
            out.append(left.pop(_below(words, len(left))))
            continue
        share = np.float32(_word(words)) * np.float32(2.0**-32)
        at = min(int(share * np.float32(len(left))), len(left) - 1)
        out.append(left[at])
        left[at] = left[-1]
        left.pop()
    return out


def _word(words: np.random.RandomState) -> int:
    return int(words.randint(0, 1 << 32, dtype=np.uint32))


def _below(words: np.random.RandomState, n: int) -> int:
    """As libstdc++ draws from 0 to n - 1 (Lemire 2019); it takes a word even for one choice."""
    product = _word(words) * n
    while product % (1 << 32) < (1 << 32) % n:
        product = _word(words) * n
    return product >> 32
