"""Stop texts, matched on bytes across token boundaries."""

from __future__ import annotations

from collections.abc import Iterable

from llamapy.base.errors import UsageError


class StopMatcher:
    """Lets bytes through until one of `stops` is complete.

    The stop that is complete first fires, of those complete at the same byte the longest; so the
    outcome does not depend on how the bytes are cut into pieces. Bytes that may yet become a stop
    are held back.
    """

    def __init__(self, stops: Iterable[str | bytes] = ()) -> None:
        self._stops = [s.encode() if isinstance(s, str) else bytes(s) for s in stops]
        if b"" in self._stops:
            raise UsageError("a stop text is empty: it would end every answer at once")
        self._longest = max(map(len, self._stops), default=0)
        self._held = b""
        self.fired: bytes | None = None

    def push(self, data: bytes) -> bytes:
        """The bytes that are certain not to belong to a stop. Nothing more once one has fired."""
        if self.fired is not None:
            return b""
        buffer = self._held + data
        found = [(at + len(s), at, s) for s in self._stops if (at := buffer.find(s)) >= 0]
        if found:
            _, at, self.fired = min(found)
            self._held = b""
            return buffer[:at]
        keep = self._partial(buffer)
        self._held = buffer[len(buffer) - keep :]
        return buffer[: len(buffer) - keep]

    def finish(self) -> bytes:
        """What was held back and became no stop."""
        rest, self._held = self._held, b""
        return rest

    def _partial(self, buffer: bytes) -> int:
        """Length of the longest end of `buffer` with which a stop begins."""
        for n in range(min(self._longest - 1, len(buffer)), 0, -1):
            end = buffer[-n:]
            if any(s.startswith(end) for s in self._stops):
                return n
        return 0
