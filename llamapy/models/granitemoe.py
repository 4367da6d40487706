"""granitemoe: granite's graph."""

from llamapy.models.granite import HANDLES, decoder, hparams

__all__ = ["HANDLES", "decoder", "hparams"]
