"""The exception tree. Each class carries the exit code of the process that dies of it.

    LlamapyError          1   a fault of ours that we can name
      UsageError          2   a flag, an argument, an input text
      FileError           3   not a GGUF, truncated, a tensor missing, a shape wrong
      ContextError        4   prompt and requested output do not fit the context
      MemoryBudgetError   5   weights, cache and compute do not fit the memory available
      ConstraintError     6   a grammar or schema could not be satisfied
      BatchError          7   some items of a batch failed
      NumericError        8   NaN or Inf in the logits
      KernelError         1   the native library refused a node: always our bug

Interrupted (130) and broken pipe (141) are no exceptions of ours: the command line handles them.
A message is one line: what, where, what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LlamapyError(Exception):
    """Shown to the user as one line. Anything else that escapes keeps its traceback."""

    exit_code = 1


class UsageError(LlamapyError):
    exit_code = 2


class FileError(LlamapyError):
    exit_code = 3


class ContextError(LlamapyError):
    exit_code = 4


class MemoryBudgetError(LlamapyError):
    exit_code = 5


class ConstraintError(LlamapyError):
    exit_code = 6


class BatchError(LlamapyError):
    exit_code = 7


class NumericError(LlamapyError):
    exit_code = 8


class KernelError(LlamapyError):
    exit_code = 1


def near_match(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the closest known name, or nothing when none is close."""
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{found[0]}'?" if found else ""
