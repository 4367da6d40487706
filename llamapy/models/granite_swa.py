"""granite_swa: granite with windows and sinks; a layer has rope unless the file says otherwise."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window
from llamapy.models import granite
from llamapy.models.granite import decoder

HANDLES = granite.HANDLES | {"attention.sliding_window", "attention.rope_pattern"}


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = granite.hparams(file, read_window(file, hp, 0))
    key = "granite_swa.attention.rope_pattern"
    if key not in file.keys:
        return hp
    return replace(hp, turns=tuple(bool(x) for x in file.per_layer(key, hp.n_layer)))


__all__ = ["HANDLES", "decoder", "hparams"]
