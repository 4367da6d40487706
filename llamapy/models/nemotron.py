"""nemotron: the graph of jais2, with rope on a part of each head."""

from llamapy.models.jais2 import decoder

__all__ = ["decoder"]
