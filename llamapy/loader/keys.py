"""The keys of a GGUF by name, and getters that say which key, what was expected, what found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from llamapy.base.errors import FileError
from llamapy.loader.values import NumberArray, StringArray, Text
from llamapy.loader.words import one_line, shown


class KeyTable(Mapping[str, Any]):
    """int, float, bool, str, NumberArray or StringArray by key name, in the file's order."""

    __slots__ = ("_types", "_values")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._types: dict[str, str] = {}

    def add(self, name: str, type_: str, value: Any) -> None:
        self._values[name] = value
        self._types[name] = type_

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        return str(value) if isinstance(value, Text) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def type_of(self, name: str) -> str:
        """GGUF's name of the type: 'u32', 'string', 'array[f32]'."""
        return self._types[name]


class Keyed:
    """Typed getters over `keys`. Without a default, or with None, the key is required.

    Each raises FileError naming the key when it is missing or has another type. Any integer type
    is good for get_int, f32 and f64 for get_float.
    """

    path: Path
    keys: KeyTable

    @property
    def _where(self) -> str:
        return one_line(self.path)

    def _get(self, key: str, kinds: type | tuple[type, ...], words: str, default: Any) -> Any:
        if key not in self.keys:
            if default is None:
                raise FileError(f"{self._where}: key {shown(key)}: missing, {words} is needed")
            return default
        value = self.keys[key]
        wrong_bool = isinstance(value, bool) and kinds is int
        if wrong_bool or not isinstance(value, kinds):
            raise self._wrong(key, words, self.keys.type_of(key))
        return value

    def _wrong(self, key: str, expected: str, found: object) -> FileError:
        return FileError(f"{self._where}: key {shown(key)}: expected {expected}, found {found}")

    def get_int(self, key: str, default: int | None = None) -> int:
        value: int = self._get(key, int, "an integer", default)
        return value

    def get_float(self, key: str, default: float | None = None) -> float:
        value: float = self._get(key, float, "a float", default)
        return value

    def get_bool(self, key: str, default: bool | None = None) -> bool:
        value: bool = self._get(key, bool, "a bool", default)
        return value

    def get_str(self, key: str, default: str | None = None) -> str:
        value: str = self._get(key, str, "a string", default)
        return value

    def get_array(self, key: str, default: Sequence[Any] | None = None) -> Sequence[Any]:
        """A NumberArray or a StringArray (or the default)."""
        value: Sequence[Any] = self._get(key, (NumberArray, StringArray), "an array", default)
        return value

    def get_strings(self, key: str) -> StringArray:
        value: StringArray = self._get(key, StringArray, "an array of strings", None)
        return value

    def get_numbers(self, key: str) -> NumberArray:
        value: NumberArray = self._get(key, NumberArray, "an array of numbers", None)
        return value

    def per_layer(self, key: str, n_layer: int, default: Any = None) -> tuple[Any, ...]:
        """One value per layer, from a scalar or from an array of exactly `n_layer`. Elements are of
        the default's kind (int, float or bool); without a default the key is required."""
        if key not in self.keys and default is not None:
            return (default,) * n_layer
        value = self._get(key, (int, float, NumberArray), "a number or an array", None)
        if not isinstance(value, NumberArray):
            out: tuple[Any, ...] = (value,) * n_layer
        elif len(value) != n_layer:
            raise self._wrong(key, f"a number or {n_layer} of them, one per layer", len(value))
        else:
            out = tuple(value)
        kind = type(default) if default is not None else type(out[0]) if out else int
        if any(type(v) is not kind for v in out):
            raise self._wrong(key, f"{kind.__name__} per layer", self.keys.type_of(key))
        return out
