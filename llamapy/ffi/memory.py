"""Memory, addresses of Python buffers, locked pages, the scan over strings. No numpy in here.

An address is valid while the buffer it was asked of is alive: keeping it so is the caller's duty.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import mmap
from array import array
from collections.abc import Callable

from llamapy.ffi.lib import library_path


class _PyBuffer(ctypes.Structure):
    """CPython's Py_buffer, part of the stable ABI since 3.11."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


# Shared memory, the default, gets no huge pages unless the administrator says so.
_PRIVATE: dict[str, int] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
)


def anonymous(n_bytes: int, huge: bool) -> mmap.mmap:
    """Zeroed, page-aligned memory, a byte at least. Pages are taken from the system when first
    touched; with `huge`, large ones where it has them: for what is read from end to end again and
    again. OSError or OverflowError where there is no room."""
    memory = mmap.mmap(-1, max(n_bytes, 1), **_PRIVATE)
    if huge and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def address_of(buffer: object) -> int:
    """Address of the first byte of a contiguous buffer, read-only ones included (which
    `ctypes.from_buffer` refuses)."""
    view = _PyBuffer()
    api = ctypes.pythonapi
    status = api.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(view), 0)
    if status:  # pythonapi raises BufferError or TypeError by itself
        raise BufferError("not a contiguous buffer")
    address: int = view.buf or 0
    api.PyBuffer_Release(ctypes.byref(view))
    return address


@functools.cache
def _native_scan() -> Callable[..., int] | None:
    try:
        scan = ctypes.CDLL(str(library_path())).lp_scan_strings
    except (OSError, AttributeError):
        return None
    scan.restype = ctypes.c_int64
    scan.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    return scan


def _python_scan(raw: memoryview, count: int, offsets: array[int] | None) -> int:
    at, end = 0, len(raw)
    for i in range(count):
        length = int.from_bytes(raw[at : at + 8], "little")
        at += 8
        if offsets is not None and at <= end:
            offsets[i] = at
        if length > end - at:
            return -1 - i
        at += length
    if offsets is not None:
        offsets[count] = at + 8
    return at


def scan_strings(raw: memoryview, count: int, offsets: array[int] | None = None) -> int:
    """Walk over `count` strings (u64 length, bytes) at the start of `raw`.

    Returns the bytes they take, or -1 - i when string i does not fit into `raw`. `offsets`, an
    array('q') of count + 1, takes the place of each string's first byte; string i ends 8 bytes
    before offsets[i + 1].
    """
    if offsets is not None and (offsets.itemsize != 8 or len(offsets) <= count):
        raise ValueError(f"offsets: {len(offsets)} places of {offsets.itemsize} bytes for {count}")
    scan = _native_scan()
    if scan is None:
        return _python_scan(raw, count, offsets)
    place = None if offsets is None else offsets.buffer_info()[0]
    return scan(address_of(raw), len(raw), count, place)


def lock(address: int, n_bytes: int) -> int:
    """Keep pages in memory (mlock). Returns 0, or the errno; ENOSYS where there is no mlock."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        mlock = libc.mlock
    except (OSError, AttributeError, TypeError):
        return errno.ENOSYS
    mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return 0 if mlock(address, n_bytes) == 0 else ctypes.get_errno()
