"""What an architecture's `build` works with: hyper-parameters, weights, memory, the shape of the
ubatch, and the inputs made so far. Blocks take it as their first argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from llamapy.graph.cgraph import CGraph
from llamapy.graph.ops import OPS, make
from llamapy.graph.tensor import OUTPUT, Tensor
from llamapy.kv.api import Memory
from llamapy.loader.hparams import HParams
from llamapy.models import inputs
from llamapy.models.inputs import Input

# What a graph ends in for each wanted token: a row of logits, one of n_embd, or the place of the
# highest logit.
LOGITS, EMBEDDINGS, HIGHEST = "logits", "embeddings", "highest"


@dataclass(frozen=True, slots=True)
class GraphShape:
    """Everything about a step that shapes its graph; a part of the runtime's GraphKey."""

    n_tokens: int
    n_outputs: int
    n_lists: int
    n_kv: tuple[int, ...]  # per cell group
    ends: str = LOGITS
    encodes: bool = False  # of a text for an encoder

    @property
    def n_runs(self) -> int:
        """Of a memory with states: each run of tokens has a list of its own."""
        return self.n_lists


@dataclass(slots=True)
class GroupInputs:
    rows: Tensor
    idx: Tensor
    range: Tensor


@dataclass
class Builder:
    hp: HParams
    weights: Mapping[str, Tensor]
    memory: Memory
    shape: GraphShape
    n_ctx: int = 0  # of the context the graph is for
    never: tuple[int, ...] = ()  # tokens that are not among the HIGHEST
    inputs: list[Input] = field(default_factory=list)
    cgraph: CGraph = field(default_factory=CGraph)
    result: Tensor | None = None
    stored: dict[Tensor, tuple[Tensor, Tensor]] = field(default_factory=dict)  # by a cache's K
    _groups: dict[int, GroupInputs] = field(default_factory=dict)
    adapter_ids: Callable[[int], Tensor] | None = None  # of all tokens, or of the wanted ones
    mid: Tensor = field(init=False)  # between the attention and feed-forward that were built last
    _pos: Tensor | None = None
    _token_ids: Tensor | None = None
    _outputs: Tensor | None = None
    _runs: Tensor | None = None
    _temperature: Tensor | None = None

    def weight(self, name: str) -> Tensor:
        return self.weights[name]

    def maybe(self, name: str) -> Tensor | None:
        """A weight that a file may lack."""
        return self.weights.get(name)

    def layer(self, il: int, name: str) -> Tensor:
        """`blk.<il>.<name>`"""
        return self.weights[f"blk.{self._block(il)}.{name}"]

    def maybe_layer(self, il: int, name: str) -> Tensor | None:
        return self.weights.get(f"blk.{self._block(il)}.{name}")

    def _block(self, il: int) -> int:
        return self.hp.layer_weights[il] if self.hp.layer_weights else il

    def name(self, x: Tensor, name: str, il: int = -1) -> Tensor:
        """Give an intermediate the name that dumps and placement show."""
        x.name = f"{name}-{il}" if il >= 0 else name
        return x

    def add_input(self, made: Input) -> Tensor:
        self.inputs.append(made)
        return made.tensor

    @property
    def pos(self) -> Tensor:
        """Positions, i32 [n_tokens]."""
        if self._pos is None:
            self._pos = self.add_input(inputs.positions(self.shape.n_tokens))
        return self._pos

    @property
    def token_ids(self) -> Tensor:
        """i32 [n_tokens]."""
        if self._token_ids is None:
            self._token_ids = self.add_input(inputs.token_ids(self.shape.n_tokens))
        return self._token_ids

    @property
    def outputs(self) -> Tensor:
        """Rows whose logits are wanted, i32 [n_outputs]."""
        if self._outputs is None:
            self._outputs = self.add_input(inputs.output_rows(self.shape.n_outputs))
        return self._outputs

    @property
    def runs(self) -> Tensor:
        """Which rows advance which states, i32 [4, n_runs]: see inputs.runs."""
        if self._runs is None:
            self._runs = self.add_input(inputs.runs(self.shape.n_runs))
        return self._runs

    def state(self, il: int, name: str) -> Tensor:
        """A state of layer `il`, f32 [shape.., n_cells]."""
        return self.memory.state(il)[name]

    def temperature(self, scale: float, floor: int, offset: float) -> Tensor:
        """What q is multiplied by at each position, f32 [1, 1, n_tokens]; one per model."""
        if self._temperature is None:
            made = inputs.temperatures(self.shape.n_tokens, scale, floor, offset)
            self._temperature = self.add_input(made)
        return self._temperature

    def group(self, group: int) -> GroupInputs:
        """The inputs of a cell group, made once."""
        if group not in self._groups:
            s = self.shape
            self._groups[group] = GroupInputs(
                self.add_input(inputs.cache_rows(group, s.n_tokens)),
                self.add_input(inputs.cell_lists(group, s.n_kv[group], s.n_lists)),
                self.add_input(inputs.visible(group, s.n_tokens)),
            )
        return self._groups[group]

    def expand(self, *xs: Tensor) -> None:
        """Put xs and what they need into the graph now: writes to the cache before reads of it,
        independent nodes next to each other."""
        self.cgraph.build_forward_expand(*xs)

    def finish(self, result: Tensor) -> None:
        """`result`, logits or embeddings [n, n_outputs], ends the graph; or where the highest
        logits are does, i32 [n_outputs]. When no row is wanted it stays out of it, and with it all
        that only it needs: the graph then just writes cache and states."""
        if self.shape.n_outputs:
            if self.shape.ends == HIGHEST:
                never = (self.add_input(inputs.numbers("never", self.never)),) if self.never else ()
                result = make("highest", result, *never)
            result.flags |= OUTPUT
            self.result = result
            self.expand(result)
        else:
            self.expand(*_writers(result))


def _writers(end: Tensor) -> list[Tensor]:
    """The nodes under `end` that write states beside their result."""
    found, seen, todo = [], {end}, [end]
    while todo:
        t = todo.pop()
        if t.op in OPS and OPS[t.op].also_writes:
            found.append(t)
        new = [s for s in t.src if s not in seen]
        seen.update(new)
        todo += new
    return found[::-1]
