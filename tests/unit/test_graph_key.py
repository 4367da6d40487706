"""Sizes of graphs that many steps share."""

from __future__ import annotations

from llamapy.base.types import BY_NAME
from llamapy.graph.tensor import Tensor
from llamapy.runtime.key import GraphKey, rounded, unit_of


def test_rounded() -> None:
    assert [rounded(n, 0) for n in (0, 1, 7, 33)] == [0, 1, 7, 33]
    assert [rounded(n, 1) for n in (4, 5, 15, 17, 33)] == [4, 6, 16, 17, 33]
    assert [rounded(n, 8) for n in (0, 4, 7, 16, 17, 24, 57)] == [0, 4, 8, 16, 24, 24, 64]
    assert sorted(range(600), key=lambda n: rounded(n, 32)) == list(range(600))


def test_the_unit_is_what_a_build_costs() -> None:
    def unit(n_layer: int, n: int) -> int:
        return unit_of(n_layer, {"w": Tensor(BY_NAME["f32"], (n, 1, 1, 1))})

    assert [unit(30, 135_000_000), unit(16, 1_200_000_000), unit(32, 8 << 30)] == [8, 1, 1]
    assert unit(2, 100_000) == 32


def test_rows_are_chosen_where_not_all_are_wanted() -> None:
    key = GraphKey(8, 7, (3, 256))
    assert key.rounded(8, 64, 5) == GraphKey(8, 7, (5, 256))
    assert GraphKey(7, 7, (3, 256)).rounded(8, 64, 5) == GraphKey(8, 8, (5, 256))
    assert GraphKey(61, 0, (1, 512)).rounded(8, 62, 1) == GraphKey(62, 0, (1, 512))
