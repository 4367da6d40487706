"""A device that computes nothing and records what it was asked: for plans without memory."""

from llamapy.devices.null.device import NullBuffer, NullDevice, NullProgram

__all__ = ["NullBuffer", "NullDevice", "NullProgram"]
