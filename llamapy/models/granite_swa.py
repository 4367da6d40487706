"""granite_swa: granite with windows and sinks; a layer has rope unless the file says otherwise."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window
from llamapy.models import granite
from llamapy.models.granite import decoder

HANDLES = granite.HANDLES | {"attention.sliding_window"}


def hparams(file: Keys, hp: HParams) -> HParams:
    return granite.hparams(file, read_window(file, hp, 0))


__all__ = ["HANDLES", "decoder", "hparams"]
