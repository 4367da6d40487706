"""The parts architectures are made of. Shapes are ggml's: innermost axis first."""

from llamapy.models.blocks.attn import attention
from llamapy.models.blocks.ends import embed, head, only_outputs
from llamapy.models.blocks.ffn import ffn_gated
from llamapy.models.blocks.norm import rms_norm

__all__ = ["attention", "embed", "ffn_gated", "head", "only_outputs", "rms_norm"]
