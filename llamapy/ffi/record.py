"""The plan's records as numpy dtypes: struct lp_opnd and struct lp_node of native/include/lp.h."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

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


def floats_of(operand: Any, slots: npt.NDArray[np.uint64]) -> npt.NDArray[np.float32] | None:
    """A view of what an OPND refers to; None where it is not f32, or does not lie together. Valid
    as long as the memory is."""
    ne, nb = operand["ne"].tolist(), operand["nb"].tolist()
    whole = nb == [4, 4 * ne[0], 4 * ne[0] * ne[1], 4 * ne[0] * ne[1] * ne[2]]
    if operand["type"] != 0 or operand["slot"] == NO_SLOT or not whole:
        return None
    address = int(slots[int(operand["slot"])]) + int(operand["offs"])
    n = ne[0] * ne[1] * ne[2] * ne[3]
    return np.frombuffer((ctypes.c_float * n).from_address(address), np.float32)
