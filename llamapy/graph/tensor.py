"""A tensor is a recorded instruction: creating one computes nothing and owns no bytes.

`ne[i]` counts elements, `ne[0]` innermost; `nb[i]` are byte strides. Data is empty until allocation
gives the tensor a buffer and an offset in it.
"""

from __future__ import annotations

from typing import Any

from llamapy.base.types import Type

INPUT = 1  # the user writes it before a run
OUTPUT = 2  # the user reads it after a run: its place is never reused
PARAM = 4  # a weight: a leaf that must not be folded away
COMPUTE = 8  # must run, not merely be sorted

Shape = tuple[int, int, int, int]


def contiguous_nb(type: Type, ne: Shape) -> Shape:
    """Byte strides of a tensor without gaps."""
    nb1 = type.row_bytes(ne[0])
    return (type.size_bytes, nb1, nb1 * ne[1], nb1 * ne[1] * ne[2])


class Tensor:
    """One node. `src` are the operands in the order of the op's row; `params` by the row's names.

    A view has `view_src` (always the root, never a view) and `view_offs` in bytes from its start.
    `buffer` and `offset_bytes` are set by the allocator, or beforehand for weights and caches;
    a view has none of its own: ask `home()`. `twin` is the same weight in a form that the products
    of its device read faster; whoever reads the weight itself need not know. `lengths`: what those
    of its rows are at most, f32 [n_rows], and the highest of them (runtime/lengths.py).
    """

    __slots__ = (
        "buffer",
        "flags",
        "lengths",
        "name",
        "nb",
        "ne",
        "offset_bytes",
        "op",
        "params",
        "src",
        "twin",
        "type",
        "view_offs",
        "view_src",
    )

    def __init__(
        self,
        type: Type,
        ne: Shape,
        *,
        op: str = "none",
        src: tuple[Tensor, ...] = (),
        params: dict[str, Any] | None = None,
        nb: Shape | None = None,
        name: str = "",
        flags: int = 0,
        view_src: Tensor | None = None,
        view_offs: int = 0,
    ) -> None:
        self.type = type
        self.ne = ne
        self.nb = nb if nb is not None else contiguous_nb(type, ne)
        self.op = op
        self.src = src
        self.params: dict[str, Any] = params if params is not None else {}
        self.name = name
        self.flags = flags
        if view_src is not None and view_src.view_src is not None:
            view_offs += view_src.view_offs
            view_src = view_src.view_src
        self.view_src: Tensor | None = view_src
        self.view_offs: int = view_offs
        self.buffer: Any = None  # a graph.device.Buffer once placed
        self.offset_bytes = 0
        self.twin: Tensor | None = None
        self.lengths: tuple[Tensor, float] | None = None

    @property
    def n_elements(self) -> int:
        ne = self.ne
        return ne[0] * ne[1] * ne[2] * ne[3]

    @property
    def n_rows(self) -> int:
        return self.ne[1] * self.ne[2] * self.ne[3]

    @property
    def n_bytes(self) -> int:
        """Bytes from the first element to the end of the last, gaps included; 0 if empty."""
        ne0, ne1, ne2, ne3 = self.ne
        if not (ne0 and ne1 and ne2 and ne3):
            return 0
        nb0, nb1, nb2, nb3 = self.nb
        size = self.type.size_bytes
        row = self.type.row_bytes(ne0) if nb0 == size else (ne0 - 1) * nb0 + size
        return row + (ne1 - 1) * nb1 + (ne2 - 1) * nb2 + (ne3 - 1) * nb3

    @property
    def is_contiguous(self) -> bool:
        """No gaps and no permutation. The stride of an axis of length 1 does not matter."""
        want = contiguous_nb(self.type, self.ne)
        return all(self.ne[i] == 1 or self.nb[i] == want[i] for i in range(4))

    @property
    def root(self) -> Tensor:
        return self.view_src if self.view_src is not None else self

    def same_layout(self, other: Tensor) -> bool:
        return self.type is other.type and self.ne == other.ne and self.nb == other.nb

    def home(self) -> tuple[Any, int]:
        """Buffer and byte offset of the first element (through the root for a view)."""
        root = self.root
        return root.buffer, root.offset_bytes + (self.view_offs if self.view_src else 0)

    def __repr__(self) -> str:
        return f"<{self.op} {self.name or '?'} {self.type.name}{list(self.ne)}>"
