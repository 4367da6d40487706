"""The parts architectures are made of. Shapes are ggml's: innermost axis first."""

from llamapy.models.blocks.attn import BARE, FULL, HEAD, HEADS, NEOX, NORMAL, Attn, window_only
from llamapy.models.blocks.decoder import NOTHING, POST_NORMED, SANDWICH, Decoder, Part, headless
from llamapy.models.blocks.moe import Moe
from llamapy.models.blocks.norm import LAYER, RMS

__all__ = [
    "BARE",
    "FULL",
    "HEAD",
    "HEADS",
    "LAYER",
    "NEOX",
    "NORMAL",
    "NOTHING",
    "POST_NORMED",
    "RMS",
    "SANDWICH",
    "Attn",
    "Decoder",
    "Moe",
    "Part",
    "headless",
    "window_only",
]
