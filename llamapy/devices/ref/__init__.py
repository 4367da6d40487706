"""What each op means, in numpy: the device that kernels and models are measured against."""

from llamapy.devices.ref.device import RefDevice
from llamapy.devices.ref.meaning import MEANING

__all__ = ["MEANING", "RefDevice"]
