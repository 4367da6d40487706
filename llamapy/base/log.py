"""What goes to stderr, and when. stdout is for the answer only.

Silent by default: errors and numbered warnings are shown, `info` needs -v, `debug` -vv. A warning
is a row of WARNINGS; with `--strict` it is raised as its row's error instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from llamapy.base.errors import ContextError, FileError, LlamapyError, UsageError

WARNINGS: dict[str, tuple[str, type[LlamapyError]]] = {
    "W01": ("something in the model file is not used or not as expected", FileError),
    "W02": ("the pre-tokenizer is not one we know, and --lenient was given", FileError),
    "W03": ("more threads than the processors this process may use", UsageError),
    "W04": ("the prompt was shortened to fit the context", ContextError),
    "W05": ("the context is longer than the model was trained for", ContextError),
    "W06": ("the prompt contains the text of a control token, read as plain text", UsageError),
    "W07": ("the output ended inside a UTF-8 character, replaced by U+FFFD", LlamapyError),
    "W08": ("an empty prompt was replaced by the BOS token", UsageError),
    "W09": ("memory could not be locked or prepared as asked", UsageError),
    "W10": ("a flag has no effect here", UsageError),
}


class Log:
    """One per process (`log`), set up by the command line; a library user gets the defaults.

    `sink` receives each finished line and may be replaced (a progress line has to be wiped first).
    """

    def __init__(self) -> None:
        self.level = 0
        self.strict = False
        self.json = False
        self.warned: list[dict[str, str]] = []
        self.sink: Callable[[str], None] = to_stderr

    def setup(self, *, level: int = 0, strict: bool = False, json: bool = False) -> None:
        self.level, self.strict, self.json = level, strict, json
        self.warned = []

    def note(self, text: str) -> None:
        """Said always: a choice made for the user that he should know of."""
        self._put("note", text, {})

    def info(self, text: str) -> None:
        if self.level >= 1:
            self._put("info", text, {})

    def debug(self, text: str) -> None:
        if self.level >= 2:
            self._put("debug", text, {})

    def warn(self, code: str, text: str) -> None:
        """Warning `code` of the table. Raises its error instead when warnings are errors."""
        error = WARNINGS[code][1]
        if self.strict:
            raise error(f"{code}: {text} (an error because of --strict)")
        self.warned.append({"code": code, "message": text})
        self._put("warning", f"{code}: {text}", {"code": code, "message": text})

    def error(self, err: LlamapyError) -> None:
        message = " ".join(str(err).split("\n"))
        fields = {"code": err.exit_code, "kind": type(err).__name__, "message": message}
        self._put("error", f"error: {message}", fields)

    def _put(self, kind: str, text: str, fields: dict[str, Any]) -> None:
        if self.json:
            self.sink(json.dumps({kind: fields or {"message": text}}, ensure_ascii=False))
        else:
            self.sink(f"llamapy: {text}")


def to_stderr(line: str) -> None:
    """One line, flushed. A closed or broken stderr loses the line, never the run."""
    try:
        sys.stderr.buffer.write(line.encode("utf-8", "backslashreplace") + b"\n")
        sys.stderr.buffer.flush()
    except AttributeError:  # replaced by a text stream, or None
        if sys.stderr is not None:
            sys.stderr.write(line + "\n")
    except (OSError, ValueError):
        pass


log = Log()
