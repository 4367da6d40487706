from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from reference import unpack

from llamapy import Model


@pytest.fixture(scope="session")
def open_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Model]]:
    """Reference models by name, opened once."""
    folder: Path = tmp_path_factory.mktemp("archs")
    opened: dict[str, Model] = {}

    def get(name: str) -> Model:
        if name not in opened:
            opened[name] = Model.open(unpack(name, folder))
        return opened[name]

    yield get
    for model in opened.values():
        model.close()
