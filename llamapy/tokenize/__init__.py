"""Text to ids and back: one `Tokenizer` per kind of vocabulary, streaming, stop strings.

Both names are looked up when asked for, so that `roles` can be had without numpy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llamapy.tokenize.api import Tokenizer, load

__all__ = ["Tokenizer", "load"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from llamapy.tokenize import api

    return getattr(api, name)
