"""llamapy: a GGUF model runner."""

__version__ = "0.1.0"
