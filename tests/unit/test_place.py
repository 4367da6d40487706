"""Placement without files: layers from the end, patterns first, proportions, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llamapy.base.errors import MemoryBudgetError, UsageError
from llamapy.graph.device import BufferType
from llamapy.loader.place import DeviceInfo, PlaceTensor, check_fit, place
from llamapy.loader.place_flags import (
    ALL,
    AUTO,
    PlaceFlags,
    parse_devices,
    parse_layers,
    parse_overrides,
    parse_split,
)

GIB = 1 << 30


def device(name: str, free: int = 8 * GIB, bufts: tuple[str, ...] = ()) -> DeviceInfo:
    kinds = tuple(BufferType(b, name, 64, 1 << 40, host=name == "CPU") for b in (bufts or (name,)))
    return DeviceInfo(name, kinds, free, 2 * free)


CPU = device("CPU", bufts=("CPU", "CPU_Mapped"))
A, B, C = device("A", 3 * GIB), device("B", GIB), device("C", 0)


def model(n_layer: int = 4, experts: bool = False) -> list[PlaceTensor]:
    out = [PlaceTensor("token_embd.weight", 100, "input", None, "get_rows")]
    for il in range(n_layer):
        out.append(PlaceTensor(f"blk.{il}.attn_norm.weight", 1, "layer", il, "mul"))
        out.append(PlaceTensor(f"blk.{il}.attn_q.weight", 10, "layer", il))
        for name in ("ffn_up", "ffn_down", "ffn_gate"):
            out.append(PlaceTensor(f"blk.{il}.{name}.weight", 20, "layer", il))
            if experts:
                out.append(PlaceTensor(f"blk.{il}.{name}_exps.weight", 50, "layer", il))
    out.append(PlaceTensor("output_norm.weight", 1, "output", None, "mul"))
    out.append(PlaceTensor("output.weight", 100, "output"))
    return out


def where(flags: PlaceFlags, devices: tuple[DeviceInfo, ...] = (A, B, CPU), **kw: object):  # type: ignore[no-untyped-def]
    return place(model(**kw), int(kw.get("n_layer", 4)), flags, devices)  # type: ignore[arg-type, call-overload]


def test_all_on_the_cpu_by_default() -> None:
    p = where(PlaceFlags())
    assert p.layer_device == ("CPU",) * 5
    assert {b.name for b in p.buft.values()} == {"CPU"}
    assert p.notes == ()
    assert p.cause["token_embd.weight"] == "input"
    assert p.cause["output.weight"] == "output"
    assert p.cause["blk.0.attn_q.weight"] == "layer"


@pytest.mark.parametrize(
    ("n", "want"),
    [
        (0, "CPU CPU CPU CPU CPU"),
        (1, "CPU CPU CPU CPU A"),  # the output layer is the first to go
        (2, "CPU CPU CPU A A"),
        (5, "A A A A A"),
        (99, "A A A A A"),
        (ALL, "A A A A A"),
    ],
)
def test_layers_are_counted_from_the_end(n: int, want: str) -> None:
    p = where(PlaceFlags(n_gpu_layers=n), (A, CPU))
    assert " ".join(p.layer_device) == want
    assert p.buft["token_embd.weight"].name == "CPU"
    assert p.buft["output.weight"].name == p.layer_device[4]
    assert p.buft["output_norm.weight"].name == p.layer_device[4]
    for il in range(4):
        assert p.buft[f"blk.{il}.attn_norm.weight"].name == p.layer_device[il]


@pytest.mark.parametrize(
    ("split", "n", "want"),
    [
        ((), ALL, "A A A A B"),  # 3 GiB to 1 GiB free: bounds at 3.75 of 5
        ((1, 1), ALL, "A A A B B"),
        ((1, 3), ALL, "A A B B B"),
        ((0, 1), ALL, "B B B B B"),
        ((1,), ALL, "A A A A A"),
        ((1, 0), ALL, "A A A A A"),
        ((1, 1), 2, "CPU CPU CPU A B"),
    ],
)
def test_proportions(split: tuple[float, ...], n: int, want: str) -> None:
    p = where(PlaceFlags(n_gpu_layers=n, tensor_split=split))
    assert " ".join(p.layer_device) == want


def test_devices_without_known_memory_share_equally() -> None:
    p = where(PlaceFlags(n_gpu_layers=4), (C, device("D", 0), CPU))
    assert " ".join(p.layer_device) == "CPU C C D D"


def test_named_devices_in_the_order_asked_for() -> None:
    p = where(PlaceFlags(n_gpu_layers=ALL, devices=("B", "A"), tensor_split=(1, 1)))
    assert " ".join(p.layer_device) == "B B B A A"
    assert where(PlaceFlags(n_gpu_layers=ALL, devices=())).layer_device == ("CPU",) * 5


def test_split_none_takes_the_main_device() -> None:
    p = where(PlaceFlags(n_gpu_layers=ALL, split_mode="none", main_gpu=1))
    assert p.layer_device == ("B",) * 5


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (PlaceFlags(split_mode="row"), ["-sm row", "not supported", "layer", "none"]),
        (PlaceFlags(split_mode="tensor"), ["-sm tensor", "not supported"]),
        (PlaceFlags(split_mode="none", main_gpu=2), ["-mg 2", "0 to 1"]),
        (PlaceFlags(devices=("Aa",)), ["-dev Aa", "did you mean 'A'", "A, B, CPU"]),
        (PlaceFlags(tensor_split=(1, 1, 1)), ["-ts", "3 numbers", "2 devices"]),
        (PlaceFlags(overrides=(("ffn", "GPU"),)), ["GPU", "A, B, CPU, CPU_Mapped"]),
        (PlaceFlags(overrides=(("ff(", "A"),)), ["ff(", "regular expression"]),
        (PlaceFlags(overrides=(("no_such", "A"),)), ["no_such", "matches no tensor", "CPU_Mapped"]),
        (PlaceFlags(cpu_moe=True), ["-cmoe", "no tensor"]),
        (PlaceFlags(n_cpu_moe=2), ["-ncmoe", "no tensor"]),
    ],
)
def test_refused(flags: PlaceFlags, words: list[str]) -> None:
    with pytest.raises(UsageError) as e:
        where(flags)
    assert [w for w in words if w not in str(e.value)] == [], str(e.value)


def test_no_device_is_said() -> None:
    p = where(PlaceFlags(n_gpu_layers=ALL, tensor_split=(1, 2)), (CPU,))
    assert p.layer_device == ("CPU",) * 5
    assert [note.split(":")[0] for note in p.notes] == ["-ngl all", "-ts"]


def test_overrides_come_first_and_the_first_match_wins() -> None:
    flags = PlaceFlags(
        n_gpu_layers=ALL,
        devices=("A",),
        overrides=((r"blk\.1\.ffn_up", "B"), (r"ffn_(up|gate)", "CPU"), ("token_embd", "A")),
    )
    p = where(flags)
    assert p.buft["blk.1.ffn_up.weight"].name == "B"
    assert p.cause["blk.1.ffn_up.weight"] == r"blk\.1\.ffn_up"
    assert p.buft["blk.2.ffn_up.weight"].name == "CPU"
    assert p.buft["blk.2.ffn_down.weight"].name == "A"
    assert p.buft["token_embd.weight"].name == "A"


def on_cpu(flags: PlaceFlags) -> set[str]:
    p = where(flags, (A, CPU), experts=True)
    return {n for n, b in p.buft.items() if b.name == "CPU"} - {"token_embd.weight"}


def test_experts_and_feed_forward_on_the_cpu() -> None:
    names = ("ffn_up", "ffn_down", "ffn_gate")
    every = PlaceFlags(n_gpu_layers=ALL, cpu_moe=True)
    assert on_cpu(every) == {f"blk.{i}.{n}_exps.weight" for i in range(4) for n in names}
    first = PlaceFlags(n_gpu_layers=ALL, n_cpu_moe=2)
    assert on_cpu(first) == {f"blk.{i}.{n}_exps.weight" for i in range(2) for n in names}
    dense = PlaceFlags(n_gpu_layers=ALL, n_cpu_ffn=3)
    assert on_cpu(dense) == {f"blk.{i}.{n}.weight" for i in range(3) for n in names}


def test_what_a_device_cannot_use_stays_on_the_cpu() -> None:
    p = place(
        model(),
        4,
        PlaceFlags(n_gpu_layers=ALL),
        (A, CPU),
        usable=lambda t, b: b.name != "A" or t.op == "mul_mat",
    )
    assert p.buft["blk.0.attn_norm.weight"].name == "CPU"
    assert p.cause["blk.0.attn_norm.weight"] == "unusable"
    assert p.buft["blk.0.attn_q.weight"].name == "A"


def test_table() -> None:
    p = where(PlaceFlags(n_gpu_layers=3), (A, CPU))
    assert [tuple(row) for row in p.table()] == [
        ("A", "A", "2-3,output", 12, 2 * 71 + 101),
        ("CPU", "CPU", "input,0-1", 11, 100 + 2 * 71),
    ]
    assert p.bytes_on("A") == 243
    gappy = where(PlaceFlags(n_gpu_layers=ALL, overrides=((r"blk\.1\.", "CPU"),)), (A, CPU))
    assert gappy.table()[0].layers == "0,2-3,output"


flags_strategy = st.builds(
    PlaceFlags,
    n_gpu_layers=st.one_of(st.integers(0, 12), st.just(ALL), st.just(AUTO)),
    overrides=st.sampled_from([(), ((r"blk\.1\.", "CPU"),), ((r"\{1,2\}|ffn", "B"), ("_q", "A"))]),
    split_mode=st.sampled_from(["layer", "none"]),
    tensor_split=st.sampled_from([(), (1.0,), (0.0, 0.3)]),
    devices=st.sampled_from([None, (), ("A",), ("B", "A"), ("A", "B", "E")]),
    main_gpu=st.just(0),
    cpu_moe=st.booleans(),
    n_cpu_ffn=st.integers(0, 3),
)


@given(flags_strategy, st.integers(1, 9))
def test_the_flags_reproduce_the_placement(flags: PlaceFlags, n_layer: int) -> None:
    devices = (A, B, device("E", 2 * GIB), CPU)
    tensors = model(n_layer, experts=True)
    try:
        p = place(tensors, n_layer, flags, devices)
    except UsageError:
        return
    again = place(tensors, n_layer, p.flags, devices)
    assert again.buft == p.buft
    assert again.layer_device == p.layer_device
    assert again.flags == p.flags
    # and through the command line
    argv = p.flags.argv()
    text = {argv[i]: argv[i + 1] for i in range(len(argv) - 1)}
    assert parse_layers(text["-ngl"]) == p.flags.n_gpu_layers
    assert parse_devices(text["-dev"]) == p.flags.devices
    if "-ts" in text:
        assert parse_split(text["-ts"]) == p.flags.tensor_split
    if "-ot" in text:
        assert parse_overrides(text["-ot"]) == p.flags.overrides
    assert ("-cmoe" in argv) == p.flags.cpu_moe


def test_fit() -> None:
    small = device("S", 250)
    p = where(PlaceFlags(n_gpu_layers=3), (small, CPU))
    check_fit(p, (small, CPU))
    p = where(PlaceFlags(n_gpu_layers=4), (small, CPU))
    with pytest.raises(MemoryBudgetError, match="device S: .* need 314 bytes, 250 are free"):
        check_fit(p, (small, CPU))


def test_auto_takes_as_many_layers_as_fit() -> None:
    tight = device("T", GIB + 250)
    p = where(PlaceFlags(n_gpu_layers=AUTO), (tight, CPU))
    assert p.flags.n_gpu_layers == 3
    assert where(PlaceFlags(n_gpu_layers=AUTO), (CPU,)).flags.n_gpu_layers == 0
    assert where(PlaceFlags(n_gpu_layers=AUTO), (A, CPU)).flags.n_gpu_layers == 5


def test_parsing() -> None:
    assert parse_layers("12") == 12
    assert parse_layers("all") == ALL
    assert parse_layers("auto") == AUTO
    assert parse_split("3,1") == parse_split("3/1") == (3.0, 1.0)
    assert parse_devices("none") == ()
    assert parse_devices("A,B") == ("A", "B")
    assert parse_overrides(r"blk\.(1|2){1,2}=CPU,exps=A") == (
        (r"blk\.(1|2){1,2}", "CPU"),
        ("exps", "A"),
    )


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_layers, "-1"),
        (parse_layers, "many"),
        (parse_split, "1,x"),
        (parse_split, "0,0"),
        (parse_split, "-1,2"),
        (parse_split, "nan"),
        (parse_split, "inf,1"),
        (parse_devices, "A,A"),
        (parse_devices, ""),
        (parse_overrides, "ffn"),
        (parse_overrides, "ffn=CPU,attn"),
        (parse_overrides, "=CPU"),
    ],
)
def test_bad_texts(parse: object, text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)  # type: ignore[operator]
