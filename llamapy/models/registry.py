"""Finding an architecture is finding its file: `general.architecture` names a module here.

Such a module offers

    hparams(file, hp) -> HParams        refine what every architecture shares
    tensors(hp) -> list[TensorSpec]     what the file must hold
    build(g)                            the graph, through the blocks
    HANDLES                             which keys of models.unhandled it reads, if any
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from llamapy.base.errors import FileError, near_match
from llamapy.loader.hparams import HParams, Keys, read_hparams
from llamapy.loader.spec import TensorSpec
from llamapy.models.builder import Builder
from llamapy.models.unhandled import refuse_unhandled

_NOT_ARCHS = {"registry", "builder", "inputs", "blocks", "unhandled"}


@dataclass(frozen=True, slots=True)
class Architecture:
    name: str
    hparams: Callable[[Keys, HParams], HParams]
    tensors: Callable[[HParams], list[TensorSpec]]
    build: Callable[[Builder], None]
    handles: frozenset[str] = frozenset()


def _module(arch: str) -> str:
    return arch.replace("-", "_").replace(".", "_")


def known() -> list[str]:
    """Names of the architectures that have a file here."""
    names = (m.name for m in pkgutil.iter_modules(_models_path()))
    return sorted(n for n in names if n not in _NOT_ARCHS)


def _models_path() -> list[str]:
    return list(importlib.import_module("llamapy.models").__path__)


def find(arch: str, path: object) -> Architecture:
    """The architecture's functions. Raises FileError naming the near match and the list."""
    names = known()
    if _module(arch) not in names:
        raise FileError(
            f"{path}: architecture '{arch}' is not supported{near_match(arch, names)} "
            f"(supported: {', '.join(names)})"
        )
    m = importlib.import_module(f"llamapy.models.{_module(arch)}")
    handles: frozenset[str] = getattr(m, "HANDLES", frozenset())
    return Architecture(arch, m.hparams, m.tensors, m.build, handles)


def shape_of(arch: Architecture, file: Keys) -> HParams:
    """All hyper-parameters of a file of this architecture. FileError for a key that is missing,
    has an impossible value, or changes the result and is not handled here."""
    hp = read_hparams(file)
    refuse_unhandled(file, hp, arch.handles)
    return arch.hparams(file, hp)
