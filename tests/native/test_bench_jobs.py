"""What bench/native_rows.py measures: kernels there are, with operands of the types that the data
has."""

import numpy as np
from harness import row_of

from bench.native_rows import attention_jobs, row_jobs


def test_every_job_is_of_a_kernel_and_its_operands_hold_their_types() -> None:
    rng = np.random.default_rng(0)
    jobs = [*row_jobs(rng), *attention_jobs(rng)]
    assert len(jobs) > 30
    for job in jobs:
        row_of(job.family, *job.types)
        for o in (*job.case.srcs, job.case.dst):
            ne = (o.ne[0] // o.type.block, *o.ne[1:])
            last = o.offs + sum((n - 1) * step for n, step in zip(ne, o.nb, strict=True))
            assert o.nb[0] == o.type.size_bytes, job.name
            assert last + o.type.size_bytes <= o.data.nbytes, job.name
