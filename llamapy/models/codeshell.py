"""codeshell: the graph of starcoder2."""

from llamapy.models.starcoder2 import decoder

__all__ = ["decoder"]
