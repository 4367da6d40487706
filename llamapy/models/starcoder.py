"""starcoder: the graph of gpt2, with one head of k and v in its larger members."""

from llamapy.models.gpt2 import decoder

__all__ = ["decoder"]
