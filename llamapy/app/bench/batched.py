"""Several sequences together, as llama-batched-bench has them: B prompts of PP tokens (or one that
all share), then TG tokens of each, one of every sequence per step, or one sequence's at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from llamapy.app.bench.cost import slices
from llamapy.app.bench.measure import Samples, Timed
from llamapy.app.bench.params import BatchedCase
from llamapy.app.bench.stats import summary
from llamapy.runtime.batch import Batch


class BatchedRunner(Timed[BatchedCase]):
    """One test. Logits are wanted of every prompt's last token and of every generated one."""

    def __init__(self, model: Any, case: BatchedCase) -> None:
        super().__init__(model, case, n_seq_max=case.n_parallel)

    def _prompt(self, n: int) -> None:
        n_seqs = 1 if self.case.shared else self.case.n_parallel
        ids = self._random(n * n_seqs)
        if self._bos is not None:
            ids[::n] = self._bos
        pos = np.tile(np.arange(n, dtype=np.int32), n_seqs)
        seqs = tuple((s,) for s in range(n_seqs) for _ in range(n))
        want = pos == n - 1
        for at, end in slices(len(ids), self.case.n_batch):
            part = slice(at, end)
            self.ctx.decode_batch(Batch(ids[part], pos[part], seqs[part], want[part]))
        if self.case.shared:
            for seq in range(1, self.case.n_parallel):
                self.ctx.seq_cp(0, seq)

    def _generate(self, n: int) -> None:
        n_seqs = self.case.n_parallel
        ids = self._random(n * n_seqs).reshape(n, n_seqs)
        seqs = tuple((s,) for s in range(n_seqs))
        want = np.ones(n_seqs, np.bool_)
        size = 1 if self.case.separate else self.case.n_batch
        parts = [slice(at, end) for at, end in slices(n_seqs, size)]
        steps = [(i, part) for i in range(n) for part in parts]
        if self.case.separate:
            steps = [(i, part) for part in parts for i in range(n)]
        for i, part in steps:
            pos = np.full(n_seqs, self.case.n_prompt + i, np.int32)
            self.ctx.decode_batch(Batch(ids[i, part], pos[part], seqs[part], want[part]))


def figures(s: Samples[BatchedCase]) -> dict[str, Any]:
    """What a test's samples come to: times of the repetition with the median total, and the
    medians of each rate, in tokens of all sequences per second."""
    case, total = s.case, s.ns
    gen = [t - p for t, p in zip(total, s.prompt_ns, strict=True)]
    out: dict[str, Any] = {"n_kv": case.n_ctx}
    parts: Sequence[tuple[str, list[int], int]] = (
        ("prompt_", s.prompt_ns, case.n_prompt * (1 if case.shared else case.n_parallel)),
        ("gen_", gen, case.n_gen * case.n_parallel),
        ("", total, case.n_ctx),
    )
    for name, ns, n in parts:
        out |= {f"{name}{k}_ns": v for k, v in summary(ns).items() if k in ("median", "mad", "min")}
        out[f"{name}median_ts"] = n * 1e9 / out[f"{name}median_ns"] if n else None
        out[f"{name}samples_ns"] = ns
    return out
