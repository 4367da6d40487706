"""What a file says about one vector for a whole text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llamapy.loader.bounded import Keys, count, wrong

POOLINGS = ("none", "mean", "cls", "last", "rank")  # by the key's number


@dataclass(frozen=True, slots=True)
class Pooled:
    """`by`: one of POOLINGS, '' where the file is silent. `labels`: what the numbers of 'rank'
    stand for; `rank_by`: the pooling before its matrices, where the file names one.
    `dense`: by number, rows and columns of the matrices that follow other poolings."""

    by: str = ""
    labels: tuple[str, ...] = ()
    rank_by: str = ""
    dense: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def n_scores(self) -> int:
        """Numbers that 'rank' gives."""
        return max(len(self.labels), 1)


def read_pooled(file: Keys, arch: str) -> Pooled:
    key = f"{arch}.classifier.output_labels"
    labels = file.get_array(key) if key in file.keys else ()
    texts = (x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x) for x in labels)
    return Pooled(
        _pooling(file, f"{arch}.pooling_type"),
        tuple(texts),
        _pooling(file, f"{arch}.classifier.pooling_type"),
        _dense(file, arch),
    )


def _dense(file: Keys, arch: str) -> dict[int, tuple[int, int]]:
    """What is not said is as wide as the model."""
    n = count(file, f"{arch}.embedding_length", least=1)
    out = count(file, f"{arch}.embedding_length_out", 0) or n
    found = {}
    for i, (n_in, n_out) in {2: (n, out), 3: (n, n)}.items():
        pre = f"{arch}.dense_{i}_feat_"
        found[i] = count(file, f"{pre}in", 0) or n_in, count(file, f"{pre}out", 0) or n_out
    return found


def _pooling(file: Keys, key: str) -> str:
    number = file.get_int(key, -1)
    if number in (-1, 0xFFFFFFFF):  # both are written to say: none named
        return ""
    if not 0 <= number < len(POOLINGS):
        raise wrong(file, key, f"a number from 0 to {len(POOLINGS) - 1}", number)
    return POOLINGS[number]
