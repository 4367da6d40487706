"""Writes docs/architectures.md from the architectures' own modules and the models that tests hold
them to: `python docs/write_architectures.py`. A test compares the page with what this gives."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from llamapy.app.archs import table

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architectures.md"
HEAD = """# Architectures

Each is a file in `llamapy/models/`, named as the GGUF names it. "Keeps": what a sequence needs from
token to token: K and V of all cells or of windows, the latent form of both, states that cannot go
back, or the whole sequence at once. "Reference": models of that architecture whose logits tests
compare with reference logits (a sum of squared differences of at most 1e-8 of the sum of squares,
1e-6 with GELU, which the reference takes from half-precision tables): in one batch, in halves,
token by token, with four sequences at once, on 1 to 4 threads, in batches of 1, 7 and 64, on
several instruction sets. "random": models of random weights (`tests/*_models.py`) in one batch,
token by token, on several threads and in batches of 7. Those of encoders have random weights as
well (`tests/random_encoders.py`); what is compared is the row that each token ends in. "Paper": a
float64 pass written from its paper or model card, in `tests/papers/`, agrees.

| architecture | keeps | reference | paper | what tells it from others |
|---|---|---|---|---|
"""


def random_ones() -> list[list[str]]:
    """Architecture and kind of those with random weights."""
    sys.path.insert(0, str(ROOT / "tests"))
    import decoder_models
    import random_encoders
    import random_models
    import recurrent_models

    models = random_models.MODELS | recurrent_models.MODELS | decoder_models.MODELS
    archs = {getattr(model, "arch", name) for name, model in models.items()} | {"t5", "t5encoder"}
    encoders = {encoder.arch for encoder in random_encoders.MODELS.values()}
    return [[a, "random"] for a in archs] + [[a, "encoder"] for a in encoders]


def page() -> str:
    with np.load(ROOT / "tests" / "data" / "archs" / "logits.npz") as z:
        models = [name.rsplit("-", 1) for name in z.files if name != "tokens"]
    models += random_ones()
    rows = []
    for row in table():
        name = row["name"]
        kinds = ", ".join(sorted({kind for arch, kind in models if arch == name}))
        paper = (ROOT / "tests" / "papers" / f"{name.replace('-', '_')}.py").exists()
        cells = (f"`{name}`", row["cache"], kinds or "-", "yes" if paper else "-", row["what"])
        rows.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
