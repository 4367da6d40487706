"""The plan's records as numpy dtypes: struct lp_opnd and struct lp_node of native/include/lp.h."""

from __future__ import annotations

import numpy as np

from llamapy.ffi.lib import MAX_SRC, NODE_BYTES, OPND_BYTES

SYNC = 1  # node flag: every earlier task of the plan is done before the first task of this node
NO_SLOT = np.uint64(2**64 - 1)  # slot of an operand without an address

OPND = np.dtype(
    [
        ("slot", "<u8"),
        ("offs", "<u8"),
        ("type", "<i8"),
        ("ne", "<i8", (4,)),
        ("nb", "<i8", (4,)),
    ]
)
NODE = np.dtype(
    [
        ("kernel", "<u8"),
        ("flags", "<u8"),
        ("n_src", "<i8"),
        ("n_tasks", "<i8"),
        ("ip", "<i8", (12,)),
        ("fp", "<f8", (12,)),
        ("dst", OPND),
        ("src", OPND, (MAX_SRC,)),
    ]
)
assert (NODE.itemsize, OPND.itemsize) == (NODE_BYTES, OPND_BYTES), (NODE.itemsize, OPND.itemsize)


def empty_nodes(n: int) -> np.ndarray:
    """`n` records of zeros, every operand without an address."""
    nodes = np.zeros(n, NODE)
    nodes["dst"]["slot"] = NO_SLOT
    nodes["src"]["slot"] = NO_SLOT
    return nodes
