"""The graphs of a context that take the most memory: buffers are opened for them, once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from llamapy.devices.cpu.prepare import PAIR_COLUMNS, most_cut
from llamapy.kv.api import Memory
from llamapy.kv.cells import TILE, pad
from llamapy.runtime.encode import encoding
from llamapy.runtime.key import GraphKey
from llamapy.runtime.params import ContextParams


@dataclass(frozen=True, slots=True)
class Worst:
    """`unit`: see key.rounded. `result`: what graphs end in. `encodes`: it has an encoder."""

    params: ContextParams
    memory: Memory
    n_head_kv: Collection[int]  # the numbers that layers have
    unit: int
    result: str
    encodes: bool

    @property
    def n_ubatch(self) -> int:
        """Tokens of the largest ubatch."""
        return min(self.params.n_ubatch, self.params.n_batch, self.params.n_ctx)

    @property
    def n_decode(self) -> int:
        """Tokens of the largest ubatch with one of each sequence."""
        return min(self.params.n_seq_max, self.n_ubatch)

    def key(self, n_tokens: int, n_outputs: int) -> GraphKey:
        """Of the largest graph with so many tokens."""
        n_seqs = min(self.params.n_seq_max, n_tokens)
        n_lists, *n_kv = self.memory.worst_sizes(n_tokens, n_seqs)
        if self.unit:
            n_lists = self.params.n_seq_max  # see GraphKey.rounded
        most = pad(self.params.n_longest or self.params.n_ctx)
        sizes = (n_lists, *(min(n, most) for n in n_kv))
        return GraphKey(n_tokens, n_outputs, sizes, self.result)

    def keys(self, n_outputs: int) -> list[GraphKey]:
        """Of all that may be the largest, where so many rows are asked for."""
        sizes = dict.fromkeys((self.n_ubatch, self.n_decode, *self._n_cut()))
        outputs = [n_outputs]
        if PAIR_COLUMNS < n_outputs < 3 * PAIR_COLUMNS:  # whose logits come in two terms each
            outputs.append(PAIR_COLUMNS)
        keys = [self.key(n, min(n_out, n)) for n in sizes for n_out in outputs]
        if self.encodes:
            keys.append(encoding(self.key(self.n_ubatch, 0)))
        return keys

    def _n_cut(self) -> Iterator[int]:
        """Tokens of small ubatches that may take more memory than the largest: over a long context
        the CPU cuts attention of few queries, and each has a row per tile of positions."""
        tiles = max(self.key(1, 0).sizes[1:], default=0) // TILE
        for n_head_kv in self.n_head_kv:
            for n_threads in (self.params.n_threads, self.params.n_threads_batch):
                n = min(most_cut(n_head_kv, n_threads), self.n_ubatch)
                if n * tiles > self.n_ubatch:
                    yield n
