"""A file's strings in bulk: one block, cut or joined."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llamapy.tokenize.keys import strings


@given(st.lists(st.binary(max_size=9), max_size=30))
def test_joined_is_the_list_with_line_feeds(values: list[bytes]) -> None:
    made = strings(values)
    assert made.to_list() == values
    assert made.joined() == b"\n".join(values)
