"""Text to ids and back: one `Tokenizer` per kind of vocabulary, streaming, stop strings."""

from llamapy.tokenize.api import Tokenizer, load

__all__ = ["Tokenizer", "load"]
