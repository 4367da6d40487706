"""A file's keys, read with bounds: a value that no model can have is a FileError naming key,
expected, found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from llamapy.base.errors import FileError

MAX_COUNT = (1 << 31) - 1


class Keys(Protocol):
    """The getters of an opened GGUF. A missing required key or a wrong type is a FileError."""

    @property
    def path(self) -> Any: ...
    @property
    def keys(self) -> Any: ...
    def get_int(self, key: str, default: int | None = ...) -> int: ...
    def get_float(self, key: str, default: float | None = ...) -> float: ...
    def get_bool(self, key: str, default: bool | None = ...) -> bool: ...
    def get_str(self, key: str, default: str | None = ...) -> str: ...
    def get_array(self, key: str) -> Sequence[Any]: ...
    def per_layer(self, key: str, n_layer: int, default: Any = ...) -> Sequence[Any]: ...


def wrong(file: Keys, key: str, expected: str, found: object) -> FileError:
    return FileError(f"{file.path}: key {key}: expected {expected}, found {found}")


def count(file: Keys, key: str, default: int | None = None, least: int = 0) -> int:
    """A whole number from `least` that an i32 can hold."""
    value = file.get_int(key) if default is None else file.get_int(key, default)
    if not least <= value <= MAX_COUNT:
        raise wrong(file, key, f"a number from {least} to {MAX_COUNT}", value)
    return value


def positive_real(file: Keys, key: str, default: float) -> float:
    """A finite number above 0; the default is not looked at."""
    value = file.get_float(key, default)
    if key in file.keys and not 0.0 < value < math.inf:
        raise wrong(file, key, "a finite number above 0", value)
    return value


def not_negative(file: Keys, key: str, default: float = 0.0) -> float:
    """A finite number from 0, which stands for none."""
    value = file.get_float(key, default)
    if not 0.0 <= value < math.inf:
        raise wrong(file, key, "a finite number from 0", value)
    return value


def counts(file: Keys, key: str, n_layer: int) -> tuple[int, ...]:
    """One number per layer."""
    values = tuple(file.per_layer(key, n_layer))
    for value in values:
        if type(value) is not int or not 0 <= value <= MAX_COUNT:
            raise wrong(file, key, f"whole numbers from 0 to {MAX_COUNT}", value)
    return values


def epsilon(file: Keys, key: str) -> float:
    value = file.get_float(key, 0.0)
    if not 0.0 <= value < 1.0:
        raise wrong(file, key, "a number in [0, 1)", value)
    return value
