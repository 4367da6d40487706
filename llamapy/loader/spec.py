"""What tensors an architecture asks for, and whether a file has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from llamapy.base.errors import FileError
from llamapy.loader.place import PlaceTensor
from llamapy.loader.table import TensorInfo
from llamapy.loader.words import one_line, shown

# Whether the file has a tensor of this name: layers may come in more than one form (q, k and v in
# one matrix or three).
Has = Callable[[str], bool]


def apart(name: str) -> bool:
    """The `Has` of a model without a file: q, k, v and gate, up in matrices of their own,
    nothing behind the last norm but the output matrix."""
    fused = ("attn_qkv.weight", "ffn_gate_up_exps.weight", "position_embd.weight")
    other = name.endswith(fused) or name.startswith(("cls.", "dense_"))
    return name.endswith(".weight") and not other


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor of a model. `ne` innermost first, trailing ones may be left out; `layer` is a
    number for role 'layer', None for 'input' and 'output'; `op` is the op that reads the tensor;
    `or_ne` is a second shape it may have; `or_more`: its last axis may be longer."""

    name: str
    ne: tuple[int, ...]
    layer: int | None
    role: str
    required: bool = True
    op: str = "mul_mat"
    or_ne: tuple[int, ...] = ()
    or_more: bool = False

    def fits(self, ne: tuple[int, ...]) -> bool:
        if self.or_more:
            last = len(self.ne) - 1
            ne = (*ne[:last], min(ne[last], self.ne[last]), *ne[last + 1 :])
        return ne in [(*own, 1, 1, 1, 1)[:4] for own in (self.ne, self.or_ne) if own]


class TensorFile(Protocol):
    """A GGUF or ModelFiles."""

    path: Path
    tensors: dict[str, TensorInfo]


@dataclass(frozen=True, slots=True)
class Matched:
    """`found`: (spec, info) by name, in the order of the specs. `absent`: optional ones the file
    does not have. `unused`: names in the file that nobody asked for, in the file's order."""

    found: dict[str, tuple[TensorSpec, TensorInfo]]
    absent: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def n_bytes(self) -> int:
        return sum(info.n_bytes for _, info in self.found.values())

    def to_place(self) -> list[PlaceTensor]:
        return [
            PlaceTensor(s.name, t.n_bytes, s.role, s.layer, s.op, t.type)
            for s, t in self.found.values()
        ]


def match(
    file: TensorFile, specs: Iterable[TensorSpec], known_unused: Iterable[str] = ()
) -> Matched:
    """Find every spec's tensor. FileError naming the first required one that is missing, or the
    first of another shape. `known_unused` are names or shell patterns that may be in the file
    without being asked for or reported."""
    found: dict[str, tuple[TensorSpec, TensorInfo]] = {}
    absent: list[str] = []
    missing: list[TensorSpec] = []
    where = one_line(file.path)
    for spec in specs:
        info = file.tensors.get(spec.name)
        if info is None:
            absent.append(spec.name)
            if spec.required:
                missing.append(spec)
            continue
        if not spec.fits(info.ne):
            shapes = f"{list(spec.ne)}" + (f" or {list(spec.or_ne)}" if spec.or_ne else "")
            raise FileError(
                f"{where}: tensor {shown(spec.name)}: expected shape {shapes}, found "
                f"{list(info.ne[: max(info.n_dims, 1)])}"
            )
        found[spec.name] = (spec, info)
    if missing:
        more = f" (and {len(missing) - 1} more tensors)" if len(missing) > 1 else ""
        raise FileError(
            f"{where}: tensor {shown(missing[0].name)}: missing, expected one of shape "
            f"{list(missing[0].ne)}{more}"
        )
    patterns = tuple(known_unused)
    unused = tuple(
        name
        for name in file.tensors
        if name not in found and not any(fnmatchcase(name, p) for p in patterns)
    )
    return Matched(found, tuple(absent), unused)
