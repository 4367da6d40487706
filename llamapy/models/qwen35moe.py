"""qwen35moe: qwen35 with the experts of qwen3next."""

from llamapy.models import qwen3next, qwen35
from llamapy.models.qwen3next import hparams, states
from llamapy.models.qwen35 import decoder

HANDLES = qwen3next.HANDLES | qwen35.HANDLES

__all__ = ["HANDLES", "decoder", "hparams", "states"]
