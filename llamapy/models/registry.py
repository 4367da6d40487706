"""Finding an architecture is finding its file: `general.architecture` names a module here.

Such a module offers

    hparams(file, hp) -> HParams        refine what every architecture shares, if need be
    HANDLES                             which keys of models.unhandled it reads, if any
    UNREAD                              ends of names of tensors that files may have, and that
                                        stand for nothing unless they are required
    decoder(hp) -> Decoder              what tells it from other decoders

or `encoder(hp) -> Encoder`, of BERT's kind, or, when it is neither, instead of the last

    tensors(hp, has) -> list[TensorSpec]    what the file must hold, given what it has
    build(g)                                the graph, through the blocks

and, where it keeps something else from token to token than causal attention does,

    cache(hp) -> CacheShape             what attention keeps: see caches.attention_cache
    states(hp) -> list[States]          what each layer carries, if any does
    GIVES = EMBEDDINGS                  no logits: an encoder, whose graph ends in `embeddings`
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

from llamapy.base.errors import FileError, near_match
from llamapy.kv.api import CacheShape, States
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_hparams, without_nextn
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.decoder import build_decoder, decoder_tensors
from llamapy.models.blocks.encoder import build_encoder, encoder_tensors
from llamapy.models.builder import LOGITS, Builder
from llamapy.models.caches import attention_cache, no_states
from llamapy.models.pooled import pooled_tensors
from llamapy.models.unhandled import refuse_unhandled

_NOT_ARCHS = {"registry", "builder", "inputs", "blocks", "unhandled", "caches", "pooled"}


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Architecture:
    name: str
    hparams: Callable[[Keys, HParams], HParams]
    tensors: Callable[[HParams, Has], list[TensorSpec]]
    build: Callable[[Builder], None]
    handles: frozenset[str] = frozenset()
    cache: Callable[[HParams], CacheShape] = attention_cache
    states: Callable[[HParams], Sequence[States]] = no_states
    gives: str = LOGITS
    unread: tuple[str, ...] = ()


def _module(arch: str) -> str:
    return arch.replace("-", "_").replace(".", "_")


def module_of(arch: str) -> ModuleType:
    """The module of an architecture that is known."""
    return importlib.import_module(f"llamapy.models.{_module(arch)}")


def modules() -> list[str]:
    """Names of the modules that are architectures."""
    names = (m.name for m in pkgutil.iter_modules(_models_path()))
    return sorted(n for n in names if n not in _NOT_ARCHS)


def name_of(module: ModuleType) -> tuple[str, str]:
    """The GGUF's name of an architecture, and what tells it from others: its docstring, in which
    a colon parts them."""
    name, _, what = " ".join((module.__doc__ or "").split()).partition(": ")
    return name, what


def known() -> list[str]:
    """The GGUF's names of all architectures that have a file here."""
    return sorted(name_of(module_of(m))[0] for m in modules())


def _models_path() -> list[str]:
    return list(importlib.import_module("llamapy.models").__path__)


def find(arch: str, path: object) -> Architecture:
    """The architecture's functions. Raises FileError naming the near match and the list."""
    m = module_of(arch) if _module(arch) in modules() else None
    if m is None or name_of(m)[0] != arch:
        names = known()
        raise FileError(
            f"{path}: architecture '{arch}' is not supported{near_match(arch, names)} "
            f"(supported: {', '.join(names)})"
        )
    if hasattr(m, "decoder"):
        tensors, build = _made_of(m.decoder, decoder_tensors, build_decoder)
    elif hasattr(m, "encoder"):
        tensors, build = _made_of(m.encoder, encoder_tensors, build_encoder)
    else:
        tensors, build = m.tensors, m.build
    passed: tuple[str, ...] = getattr(m, "UNREAD", ())

    def asked(hp: HParams, has: Has) -> list[TensorSpec]:
        specs = tensors(hp, has) + pooled_tensors(hp, has)
        return [s for s in specs if s.required or not s.name.endswith(passed)]

    return Architecture(
        arch,
        getattr(m, "hparams", _as_read),
        asked,
        build,
        getattr(m, "HANDLES", frozenset()),
        getattr(m, "cache", attention_cache),
        getattr(m, "states", no_states),
        getattr(m, "GIVES", LOGITS),
        passed,
    )


def _as_read(file: Keys, hp: HParams) -> HParams:
    return hp


def _made_of(
    what: Callable[[HParams], T],
    tensors_of: Callable[[T, HParams, Has], list[TensorSpec]],
    build_of: Callable[[Builder, T], None],
) -> tuple[Callable[[HParams, Has], list[TensorSpec]], Callable[[Builder], None]]:
    def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
        return tensors_of(what(hp), hp, has)

    def build(g: Builder) -> None:
        build_of(g, what(g.hp))

    return tensors, build


def shape_of(arch: Architecture, file: Keys) -> HParams:
    """All hyper-parameters of a file of this architecture. FileError for a key that is missing,
    has an impossible value, or changes the result and is not handled here."""
    hp = read_hparams(file)
    refuse_unhandled(file, hp, arch.handles)
    if "nextn_predict_layers" in arch.handles:
        hp = without_nextn(file, hp)
    return arch.hparams(file, hp)
