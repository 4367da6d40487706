"""The parts architectures are made of. Shapes are ggml's: innermost axis first."""

from llamapy.models.blocks.attn import FULL, HEAD, HEADS, NEOX, NORMAL, Attn, window_only
from llamapy.models.blocks.decoder import Decoder, Mixer
from llamapy.models.blocks.moe import Moe
from llamapy.models.blocks.norm import LAYER, RMS

__all__ = [
    "FULL",
    "HEAD",
    "HEADS",
    "LAYER",
    "NEOX",
    "NORMAL",
    "RMS",
    "Attn",
    "Decoder",
    "Mixer",
    "Moe",
    "window_only",
]
