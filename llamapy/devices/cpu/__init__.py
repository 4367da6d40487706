"""The CPU: host buffers, and splits lowered to native plans."""

from llamapy.devices.cpu.device import CpuDevice

__all__ = ["CpuDevice"]
