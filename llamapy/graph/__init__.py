"""Tensors, graphs, and everything that is decided about them before a device computes."""
