"""Finding and loading the native library, its kernel table, and the choice of instruction set.

Needs no numpy. Nothing is loaded before the first call that needs it.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import struct
from dataclasses import dataclass
from pathlib import Path

from llamapy.base import flags
from llamapy.base.errors import LlamapyError, UsageError

ABI = 1
MAX_SRC = 10
OPND_BYTES = struct.calcsize("<2Q q 4q 4q")
NODE_BYTES = struct.calcsize("<2Q 2q 12q 12d") + (1 + MAX_SRC) * OPND_BYTES

# Bits of `need` in kernels.def and of lp_cpu_features.
FEATURES = {"avx2": 1, "avx512": 2, "vnni": 4, "neon": 8, "dotprod": 16, "avxvnni": 32, "i8mm": 64}
# What a row's instruction set is called in kernels.def and LLAMAPY_ISA, and the bits it stands on,
# worst first.
ISAS = {
    "scalar": 0,
    "avx2": 1,
    "avxvnni": 1 | 32,
    "avx512": 1 | 2,
    "avx512vnni": 1 | 2 | 4,
    "neon": 8,
    "neondot": 8 | 16,
    "neoni8mm": 8 | 16 | 64,
}


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One row of kernels.def; `index` is what a plan's records hold."""

    index: int
    family: str
    wtype: str
    xtype: str
    isa: str
    need: int

    def __str__(self) -> str:
        return f"{self.family}-{self.wtype}-{self.xtype}-{self.isa}"


@dataclass(frozen=True, slots=True)
class Library:
    """The loaded library: `dll` with argument types set, and what it says of itself."""

    path: Path
    dll: ctypes.CDLL
    features: int
    kernels: tuple[KernelRow, ...]
    best: dict[tuple[str, str, str, int], int | None]  # a cache, filled by best_kernel


@dataclass(frozen=True, slots=True)
class IsaLine:
    """One instruction set as `doctor` shows it. state: chosen, available, refused, not compiled."""

    isa: str
    n_kernels: int
    state: str
    reason: str


class _Kernel(ctypes.Structure):
    """struct lp_kernel."""

    _fields_ = (
        ("family", ctypes.c_char_p),
        ("wtype", ctypes.c_char_p),
        ("xtype", ctypes.c_char_p),
        ("isa", ctypes.c_char_p),
        ("need", ctypes.c_uint64),
        ("run", ctypes.c_void_p),
        ("split", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
    )


def library_path() -> Path:
    """LLAMAPY_LIB, or the library in this folder, whether it is there or not."""
    own = flags.path("LLAMAPY_LIB")
    return Path(own) if own else Path(__file__).parent / "libllamapy.so"


def load() -> Library:
    """The library, loaded once per path. LlamapyError when it is missing or not ours."""
    return _load(library_path())


@functools.cache
def _load(path: Path) -> Library:
    if not path.is_file():
        raise LlamapyError(f"{path}: no native library there; build it with `make native`")
    try:
        dll = ctypes.CDLL(str(path))
        _declare(dll)
    except (OSError, AttributeError) as e:
        raise LlamapyError(
            f"{path}: cannot be loaded ({e}); build it again with `make native`"
        ) from e
    found = (dll.lp_abi(), dll.lp_sizeof_node(), dll.lp_sizeof_opnd())
    expected = (ABI, NODE_BYTES, OPND_BYTES)
    if found != expected:
        raise LlamapyError(
            f"{path}: built for another version (ABI and record sizes {found}, expected "
            f"{expected}); build it again with `make native`"
        )
    return Library(path, dll, dll.lp_cpu_features(), _read_kernels(dll), {})


def _declare(dll: ctypes.CDLL) -> None:
    p, i64, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    f32, f64 = ctypes.c_float, ctypes.c_double
    signatures = {
        "lp_abi": (ctypes.c_uint32, ()),
        "lp_sizeof_node": (ctypes.c_uint64, ()),
        "lp_sizeof_opnd": (ctypes.c_uint64, ()),
        "lp_cpu_features": (ctypes.c_uint64, ()),
        "lp_kernel_count": (i64, ()),
        "lp_kernel_at": (ctypes.POINTER(_Kernel), (i64,)),
        "lp_prepare": (i32, (p, i64, i32, p, p)),
        "lp_pool_new": (p, (i32,)),
        "lp_pool_free": (None, (p,)),
        "lp_run": (i32, (p, p, i64, p, i64, p, i64, i32, p, p)),
        "lp_sigint_watch": (i32, (p,)),
        "lp_sigint_unwatch": (None, ()),
        "lp_softmax_sums": (None, (p, i64, i64, p, p)),
        "lp_row_tops": (None, (p, i64, i64, p, p)),
        "lp_top_k": (i64, (p, i64, i64, p, p)),
        "lp_usual": (i64, (p, i64, p, f64)),
        "lp_weights": (f64, (p, i64, p)),
        "lp_exp": (f64, (f64,)),
        "lp_log": (f64, (f64,)),
        "lp_kept_most": (i64, (i64,)),
        "lp_keep_row": (i64, (p, i64, f32, f64, f64, f64, i32, p)),
        "lp_kept_against": (i64, (p, i64, p, i64, f32, p)),
    }
    signatures |= {
        "lp_xxh64_begin": (None, (p,)),
        "lp_xxh64_add": (None, (p, p, i64)),
        "lp_xxh64_end": (ctypes.c_uint64, (p,)),
        "lp_nonfinite": (i64, (i32, p, i64, i64, p)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(dll, name)
        function.restype, function.argtypes = result, arguments


def _read_kernels(dll: ctypes.CDLL) -> tuple[KernelRow, ...]:
    rows = []
    for i in range(dll.lp_kernel_count()):
        k = dll.lp_kernel_at(i).contents
        family, wtype, xtype, isa = (s.decode() for s in (k.family, k.wtype, k.xtype, k.isa))
        rows.append(KernelRow(i, family, wtype, xtype, isa, k.need))
    return tuple(rows)


def features() -> tuple[str, ...]:
    """Names of what the CPU has and the system allows, of those we have kernels for."""
    have = load().features
    return tuple(name for name, bit in FEATURES.items() if have & bit)


def allowed() -> int:
    """Feature bits that kernels may use: the CPU's, lowered by LLAMAPY_ISA. UsageError when that
    names an instruction set this CPU lacks."""
    have = load().features
    level = flags.choice("LLAMAPY_ISA")
    if level is None:
        return have
    if ISAS[level] & ~have:
        raise UsageError(f"LLAMAPY_ISA={level}: this CPU has no {level}; it may lower, never raise")
    names = tuple(ISAS)
    lower = (ISAS[name] for name in names[: names.index(level) + 1])
    return have & functools.reduce(operator.or_, lower)


def best_kernel(family: str, wtype: str, xtype: str) -> int | None:
    """Index of the last row (the best) that `allowed` permits; None when there is none."""
    library, mask = load(), allowed()
    key = (family, wtype, xtype, mask)
    if key not in library.best:
        fit = [
            k.index
            for k in library.kernels
            if (k.family, k.wtype, k.xtype) == key[:3] and not k.need & ~mask
        ]
        library.best[key] = fit[-1] if fit else None
    return library.best[key]


def isa_report() -> tuple[IsaLine, ...]:
    """Every instruction set we know: compiled or not, allowed or refused, and why. The best one
    that is allowed is `chosen`; families that have no kernel for it use the next lower."""
    library, mask = load(), allowed()
    lines: list[IsaLine] = []
    for isa in ISAS:
        rows = [k for k in library.kernels if k.isa == isa]
        lacks = [
            n for n, bit in FEATURES.items() if any(k.need & bit & ~library.features for k in rows)
        ]
        if not rows:
            line = IsaLine(isa, 0, "not compiled", "no kernels in this build")
        elif lacks:
            line = IsaLine(isa, len(rows), "refused", f"CPU or system lacks {', '.join(lacks)}")
        elif any(k.need & ~mask for k in rows):
            lowered = flags.choice("LLAMAPY_ISA")
            line = IsaLine(isa, len(rows), "refused", f"lowered by LLAMAPY_ISA={lowered}")
        else:
            line = IsaLine(isa, len(rows), "available", "allowed by CPU and system")
        lines.append(line)
    usable = [line for line in lines if line.state == "available"]
    best = usable[-1] if usable else None
    return tuple(
        IsaLine(x.isa, x.n_kernels, "chosen", "the best allowed") if x is best else x for x in lines
    )
