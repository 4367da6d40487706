"""Logits to one id: parameters, filters, penalties, the draw."""

from llamapy.sample.params import SamplerParams

__all__ = ["Sampler", "SamplerParams", "logprobs"]


def __getattr__(name: str) -> object:
    """`Sampler` and `logprobs` bring numpy along; the parameters alone, for `--help`, do not."""
    if name == "Sampler":
        from llamapy.sample.chain import Sampler

        return Sampler
    if name == "logprobs":
        from llamapy.sample.logprobs import logprobs

        return logprobs
    raise AttributeError(name)
