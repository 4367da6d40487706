"""Things that are closed: `with` closes them. `close` may be called twice."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """A context manager of itself, for a class that has a `close`."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()
