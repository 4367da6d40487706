"""The flags that decide where weights go, and how their texts are read and written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llamapy.base.errors import UsageError

ALL = 1 << 30
AUTO = -1
MODES = ("layer", "none")
_OVERRIDE = re.compile(r"(.+?)=([A-Za-z0-9_.:-]+)(?:,|$)")

# What the expert and feed-forward flags stand for; `{}` takes a layer's number.
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
LAYER_EXPERTS = r"blk\.{}\.ffn_(up|down|gate|gate_up)_(ch|)exps"
LAYER_FFN = r"blk\.{}\.ffn_(up|down|gate)\."


@dataclass(frozen=True, slots=True)
class PlaceFlags:
    """-ngl, -ot, -sm, -ts, -dev, -mg, -cmoe, -ncmoe, -ncffn.

    `n_gpu_layers` counts from the end, the output layer being one of them; ALL and AUTO (as many as
    fit) are allowed. `overrides` are (regex, name of a buffer type), the first match wins.
    `tensor_split` empty: by free memory. `devices` None: all; (): none.
    """

    n_gpu_layers: int = 0
    overrides: tuple[tuple[str, str], ...] = ()
    split_mode: str = "layer"
    tensor_split: tuple[float, ...] = ()
    devices: tuple[str, ...] | None = None
    main_gpu: int = 0
    cpu_moe: bool = False
    n_cpu_moe: int = 0
    n_cpu_ffn: int = 0

    def argv(self) -> list[str]:
        """As arguments of the command line; flags at their default are left out."""
        plain = PlaceFlags()
        out = ["-ngl", _layers_text(self.n_gpu_layers)]
        if self.devices is not None:
            out += ["-dev", ",".join(self.devices) or "none"]
        if self.split_mode != plain.split_mode:
            out += ["-sm", self.split_mode]
        if self.tensor_split:
            out += ["-ts", ",".join(f"{v:.17g}" for v in self.tensor_split)]
        if self.main_gpu != plain.main_gpu:
            out += ["-mg", str(self.main_gpu)]
        if self.overrides:
            out += ["-ot", ",".join(f"{regex}={buft}" for regex, buft in self.overrides)]
        if self.cpu_moe:
            out += ["-cmoe"]
        for flag, n in (("-ncmoe", self.n_cpu_moe), ("-ncffn", self.n_cpu_ffn)):
            if n:
                out += [flag, str(n)]
        return out


def _layers_text(n: int) -> str:
    return "auto" if n == AUTO else "all" if n >= ALL else str(n)


def parse_layers(text: str) -> int:
    """-ngl: a number, 'all' or 'auto'."""
    named = {"all": ALL, "auto": AUTO}
    if text in named:
        return named[text]
    if not text.isdecimal():
        raise UsageError(f"-ngl {text}: expected a number of layers, 'all' or 'auto'")
    return min(int(text), ALL)


def parse_overrides(text: str) -> tuple[tuple[str, str], ...]:
    """-ot: REGEX=BUFT,... A comma ends a pair only after a buffer type, so a regex may hold one."""
    out, at = [], 0
    while at < len(text):
        match = _OVERRIDE.match(text, at)
        if not match:
            raise UsageError(f"-ot {text[at:]}: expected REGEX=BUFFER_TYPE,...")
        out.append((match[1], match[2]))
        at = match.end()
    return tuple(out)


def parse_split(text: str) -> tuple[float, ...]:
    """-ts: numbers with , or / between them."""
    try:
        values = tuple(float(v) for v in re.split(r"[,/]", text))
    except ValueError:
        raise UsageError(f"-ts {text}: expected numbers such as 3,1") from None
    if any(not 0 <= v < float("inf") for v in values) or sum(values) <= 0:
        raise UsageError(f"-ts {text}: expected numbers from 0 on, not all 0")
    return values


def parse_devices(text: str) -> tuple[str, ...]:
    """-dev: names with commas between them, or 'none'."""
    if text == "none":
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"-dev {text}: expected different device names, or 'none'")
    return names
