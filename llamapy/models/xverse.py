"""xverse: the same graph as internlm2's."""

from llamapy.models.internlm2 import decoder

__all__ = ["decoder"]
