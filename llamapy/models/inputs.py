"""Graph inputs. Each knows its tensor and fills it from the ubatch and the memory's step: ids,
positions, cache rows, cell lists, output rows are data, never baked into a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llamapy.base.types import F32, I32, Type
from llamapy.graph.tensor import INPUT, Tensor
from llamapy.kv import ngrams
from llamapy.kv.api import Floats, Ints, Step, Ubatch, floats, ints
from llamapy.loader.hparams import HParams

Values = Callable[[Ubatch, Step], Ints | Floats]
Place = tuple[Any, int, int, Values]


@dataclass(frozen=True, slots=True)
class Input:
    """`values` gives an array whose C order is the tensor's order (last axis = ne[0]); or fewer
    elements along its first axis."""

    tensor: Tensor
    values: Values

    def place(self) -> Place | None:
        """Buffer, offset and bytes in a graph whose memory is planned, and what to write there.
        None for an input that no node of the graph needs."""
        buffer, offset = self.tensor.home()
        return None if buffer is None else (buffer, offset, self.tensor.n_bytes, self.values)


def fill(place: Place, ubatch: Ubatch, step: Step) -> None:
    """Write an input. Where the graph is for more than there are, the last one stands in for the
    missing ones."""
    buffer, offset, n_bytes, make = place
    values = make(ubatch, step)
    buffer.write(offset, values)
    if values.nbytes < n_bytes:
        last = values[-1:]
        n_missing = (n_bytes - values.nbytes) // last.nbytes
        buffer.write(offset + values.nbytes, last.repeat(n_missing, axis=0))


def _input(name: str, ne: tuple[int, ...], values: Values, type_: Type = I32) -> Input:
    shape = (*ne, 1, 1, 1, 1)
    tensor = Tensor(type_, (shape[0], shape[1], shape[2], shape[3]), name=name, flags=INPUT)
    return Input(tensor, values)


def token_ids(n_tokens: int) -> Input:
    return _input("inp_tokens", (n_tokens,), lambda u, s: u.tokens)


def positions(n_tokens: int) -> Input:
    return _input("inp_pos", (n_tokens,), lambda u, s: u.pos)


def output_rows(n_outputs: int) -> Input:
    return _input("inp_out_ids", (n_outputs,), lambda u, s: u.outputs)


def cache_rows(group: int, n_tokens: int) -> Input:
    """Cells that take the new K and V of a cell group."""
    return _input(f"inp_kv_rows-{group}", (n_tokens,), lambda u, s: s.views[group].rows)


def cell_lists(group: int, n_kv: int, n_lists: int) -> Input:
    """Each sequence's cells in position order, -1 where a position has none."""
    return _input(f"inp_kv_idx-{group}", (n_kv, n_lists), lambda u, s: s.views[group].idx)


def visible(group: int, n_tokens: int) -> Input:
    """Per token: list, first and one past the last visible place, own place."""
    return _input(f"inp_kv_range-{group}", (4, n_tokens), lambda u, s: s.views[group].range)


def runs(n_runs: int) -> Input:
    """Per run of one sequence's tokens: first row, how many, the cell that holds the state before
    them (-1: all zero), the cell that takes the state after them."""
    return _input("inp_runs", (4, n_runs), lambda u, s: s.runs)


def temperatures(n_tokens: int, scale: float, floor: int, offset: float) -> Input:
    """By position, f32 [1, 1, n_tokens]: 1 + scale * log(1 + floor((pos + offset) / floor))."""

    def values(u: Ubatch, s: Step) -> Floats:
        return u.temperatures(scale, floor, offset)

    return _input("inp_attn_scale", (1, 1, n_tokens), values, F32)


def replaced_ids(n_tokens: int, by: Mapping[int, int]) -> Input:
    """The tokens, some replaced, i32 [n_tokens]."""

    def values(u: Ubatch, s: Step) -> Ints:
        return ints([by.get(t, t) for t in u.tokens.tolist()])

    return _input("inp_replaced", (n_tokens,), values)


def by_token(name: str, size: int, n_tokens: int, of: Mapping[int, float], other: float) -> Input:
    """A number that some tokens have, `other` for the rest, then zeros, f32 [size, 1, n_tokens]."""
    zeros = [0.0] * (size - 1)

    def values(u: Ubatch, s: Step) -> Floats:
        return floats([x for t in u.tokens.tolist() for x in (of.get(t, other), *zeros)])

    return _input(f"inp_{name}", (size, 1, n_tokens), values, F32)


def first_row() -> Input:
    """The number 0, i32 [1]: the row of a table that stands for every token."""
    array = ints((0,))
    return _input("inp_first_row", (1,), lambda u, s: array)


def pooled_rows(n_embd: int, n_rows: int) -> Input:
    """What a graph of pooled rows starts from, f32 [n_embd, n_rows]; filled by who runs it."""
    return _input("inp_pooled", (n_embd, n_rows), lambda u, s: floats(()), F32)


def numbers(name: str, values: Sequence[int]) -> Input:
    """The same of whole numbers, i32 [len(values)]."""
    array = ints(values)
    return _input(f"inp_{name}", (len(values),), lambda u, s: array)


def constants(name: str, values: Sequence[float]) -> Input:
    """Numbers of the architecture that no tensor of the file holds, f32 [len(values)]."""
    array = floats(values)
    return _input(f"inp_{name}", (len(values),), lambda u, s: array, F32)


def _cell_of(state: Tensor) -> Callable[[int], memoryview]:
    """The bytes of a cell of a state, as the step before has left them."""

    def cell(i: int) -> memoryview:
        buffer, offset = state.home()
        n = state.nb[1]
        view: memoryview = buffer.read(offset + i * n, n)
        return view

    return cell


def last_tokens(n_tokens: int, n: int, state: Tensor) -> Input:
    """What `state` [n - 1, n_cells] is to remember after each token, f32 [n - 1, n_tokens]."""
    cell = _cell_of(state)

    def values(u: Ubatch, s: Step) -> Floats:
        return ngrams.remembered(ngrams.last_tokens(u, s, n, cell))

    return _input("inp_last_tokens", (n - 1, n_tokens), values, F32)


def ngram_rows(n_tokens: int, hp: HParams, state: Tensor) -> Input:
    """Rows that each token's heads look up, i32 [n_heads * n_tokens], heads of a token together."""
    cell, n = _cell_of(state), hp.ngrams

    def values(u: Ubatch, s: Step) -> Ints:
        last = ngrams.last_tokens(u, s, n.n, cell)
        return ngrams.ngram_rows(last, n.eos, n.multipliers, n.offsets, n.sizes)

    return _input("inp_ngrams", (len(n.sizes) * n_tokens,), values)
