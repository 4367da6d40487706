"""llamapy: a GGUF model runner. `from llamapy import Model`; see llamapy/api.py."""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it, which takes a while to import
if TYPE_CHECKING:
    from typing import Any

    from llamapy.api import Context, Model

__version__ = "0.1.0"
__all__ = ["Context", "Model", "__version__"]


def __getattr__(name: str) -> Any:
    """Model and Context come when asked for: `llamapy --version` must not load numpy."""
    if name in ("Model", "Context"):
        from llamapy import api

        return getattr(api, name)
    raise AttributeError(f"module 'llamapy' has no attribute {name!r}")
