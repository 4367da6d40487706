"""Tensors that a file has and its architecture does not ask for: an error, not a guess, where they
are a part of the model."""

from __future__ import annotations

from collections.abc import Iterable

from llamapy.base.errors import FileError
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.loader.words import one_line, shown

# Beginnings of names of tensors that are a part of a decoder or encoder by the format's convention.
# Others (those of an image encoder in the same file) are not what a text goes through.
_OF_THE_MODEL = (
    *("blk.", "enc.", "dec.", "token_", "position_", "output", "rope_", "altup_", "per_layer_"),
    *("cls", "dense_", "conv1d", "posnet.", "convnext.", "hc_", "nextn.", "norm."),
)
_NOT_COMPUTED = ".input_scale"  # for activations in 4 bits, which nothing here is


def refuse_unread(
    file: Keys, hp: HParams, unused: Iterable[str], known: tuple[str, ...], *, lenient: bool
) -> str:
    """What to warn of, if anything, given the names of tensors that nobody asked for; `known` are
    ends of those that stand for nothing. FileError where one is a part of the model, unless
    `lenient`."""
    later = tuple(f"blk.{hp.n_layer + i}." for i in range(hp.n_layer_nextn))
    nothing = (*known, _NOT_COMPUTED)
    names = [n for n in unused if not n.startswith(later) and not n.endswith(nothing)]
    part = [n for n in names if n.startswith(_OF_THE_MODEL)]
    if not names:
        return ""
    which = part or names
    more = f" (and {len(which) - 1} more)" if len(which) > 1 else ""
    text = f"{one_line(file.path)}: tensor {shown(which[0])}{more}: {hp.arch} has no such tensor"
    if part and not lenient:
        raise FileError(f"{text} here: what it changes is not computed (--lenient: go on without)")
    return f"{text}, it is not used"
