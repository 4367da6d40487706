"""A model of which the header alone is read: where its weights would go, and what contexts of it
would take. Made by the code that loads and runs it, so that the sizes are those of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from llamapy.base.closing import Closing
from llamapy.devices.cpu import CpuDevice
from llamapy.graph.device import Device
from llamapy.graph.tensor import PARAM, Tensor
from llamapy.loader.place_flags import PlaceFlags
from llamapy.loader.repack import Repacked, candidates, replaceable
from llamapy.loader.splits import open_model
from llamapy.loader.weights import in_place_or_copied
from llamapy.runtime.layout import lay_out
from llamapy.runtime.params import ContextParams, Parts
from llamapy.runtime.room import ContextBytes, Unopened, context_bytes


class Planned(Closing):
    """`in_place` and `copied`: bytes of weights by device, those that stay pages of the file and
    those that get memory of their own. `others`: devices besides the CPU."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        flags: PlaceFlags,
        load_mode: str = "mmap",
        *,
        others: Sequence[Device] = (),
        lenient: bool = False,
    ) -> None:
        self.files = open_model(path)
        try:
            self.laid = lay_out(self.files, flags, others, load_mode, lenient=lenient)
        except BaseException:
            self.files.close()
            raise
        self.in_place: dict[str, int] = {}
        self.copied: dict[str, int] = {}
        self.weights: dict[str, Tensor] = {}
        self.others = others
        self._take_weights(load_mode.startswith("mmap"))

    def _take_weights(self, mapping: bool) -> None:
        kinds = in_place_or_copied(self.laid.matched, self.laid.placement, mapping)
        for into, infos in zip((self.in_place, self.copied), kinds, strict=True):
            for info in infos:
                buft = self.laid.placement.buft[info.name]
                t = self.weights[info.name] = Tensor(
                    info.type, info.ne, name=info.name, flags=PARAM
                )
                t.buffer = Unopened([], buft, info.n_bytes, "weights")
                into[buft.device] = into.get(buft.device, 0) + info.n_bytes

    def interleaved(self, choice: str, n_threads: int) -> tuple[int, int]:
        """Bytes of the forms that `--repack choice` would make if there is room for them, and of
        those weights of which nothing else is read then."""
        device = CpuDevice(n_threads)
        if choice == "off" or (choice == "auto" and not device.repack_pays):
            return 0, 0
        matched = self.laid.matched
        made = list(candidates(self.weights, matched, device, Repacked(choice)))
        given_back = replaceable(matched)
        return (
            sum(t.n_bytes for t in made),
            sum(t.n_bytes for t in made if t.name in given_back),
        )

    def context(self, params: ContextParams, n_outputs: int = 0) -> ContextBytes:
        """See room.context_bytes."""
        laid = self.laid
        layers = laid.placement.layer_device
        parts = Parts(laid.arch, laid.hparams, self.weights, self.others, layers)
        return context_bytes(parts, params, n_outputs)

    def weights_on(self, device: str) -> int:
        return self.in_place.get(device, 0) + self.copied.get(device, 0)

    def close(self) -> None:
        self.files.close()
