"""Backends: each implements graph/device.py and knows nothing of models."""
