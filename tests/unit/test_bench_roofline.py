"""Ceilings: the best window of several threads' work, and what a test needs of the machine."""

from __future__ import annotations

import math
import time

import pytest

from llamapy.app.bench import cost
from llamapy.app.bench.ops import _product
from llamapy.app.bench.params import Case
from llamapy.app.bench.roofline import Ceilings, most_in_window, probe_name, side_by_side
from llamapy.app.bench.shapes import parse_spec
from llamapy.app.bench.synthetic import make_files
from llamapy.base.types import BY_NAME
from llamapy.ffi.lib import FEATURES
from llamapy.ffi.record import empty_nodes
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import CacheShape
from llamapy.models import registry


def steady(rate: float, start: float, end: float, step: float) -> list[tuple[float, int]]:
    n = round((end - start) / step)
    return [(start, 0)] + [(start + (i + 1) * step, round(rate * step)) for i in range(n)]


def test_two_steady_threads_add_up() -> None:
    logs = [steady(1000, 0.0, 1.0, 0.01), steady(500, 0.005, 1.1, 0.02)]
    assert most_in_window(logs, 0.1) == pytest.approx(1500, rel=1e-6)


def test_the_best_window_counts() -> None:
    """A tenth of a second at double speed, amid a disturbed second."""
    log = (
        steady(100, 0.0, 0.5, 0.1) + steady(200, 0.5, 0.6, 0.05)[1:] + steady(100, 0.6, 1, 0.1)[1:]
    )
    assert most_in_window([log], 0.1) == pytest.approx(200)
    assert most_in_window([log], 1.0) == pytest.approx(110)


def test_only_time_in_which_all_work_counts() -> None:
    logs = [steady(100, 0.0, 1.0, 0.1), steady(100, 2.0, 3.0, 0.1)]
    assert most_in_window(logs, 0.1) == 0.0
    assert most_in_window([steady(100, 0.0, 0.5, 0.1)], 9.0) == pytest.approx(
        100
    )  # window too long


def test_every_thread_keeps_its_log() -> None:
    def work(i: int) -> int:
        time.sleep(0.001)
        return 10 + i

    logs = side_by_side(work, 3, 0.02)
    assert [log[0][1] for log in logs] == [0, 0, 0]
    assert [{amount for _, amount in log[1:]} for log in logs] == [{10}, {11}, {12}]
    for log in logs:
        times = [t for t, _ in log]
        assert times == sorted(times) and times[-1] - times[0] >= 0.02


def test_the_probe_is_of_the_instruction_sets_allowed() -> None:
    assert probe_name("int8", 0) == ""
    assert probe_name("int8", FEATURES["avx2"]) == "lp_probe_int8_avx2"
    best = FEATURES["avx2"] | FEATURES["avx512"] | FEATURES["vnni"]
    assert probe_name("fma", best) == "lp_probe_fma_peak"
    assert probe_name("fma", FEATURES["neon"]) == "lp_probe_fma_peak"


def test_two_looks_are_one() -> None:
    assert Ceilings(2, 1, 5, 3).best(Ceilings(2, 2, 4, 3)) == Ceilings(2, 2, 5, 3)


def weights_of(spec: str) -> tuple[cost.Kept, cost.Weights]:
    with make_files(parse_spec(spec)) as files:
        arch = registry.find(files.get_str("general.architecture"), files.path)
        hp = registry.shape_of(arch, files)
        tensors = {n: Tensor(t.type, t.ne, name=n) for n, t in files.tensors.items()}
        return cost.Kept(arch.cache(hp), arch.states(hp)), cost.weigh(tensors)


def test_what_the_reference_shape_needs() -> None:
    """0.975 G operations per prompt token, as the shape's figures elsewhere say of 8 layers."""
    kept, w = weights_of("llama-1b/8:Q8_0")
    layer = 2048 * 2048 * 2 + 2048 * 512 * 2 + 3 * 2048 * 8192
    head = 2048 * 32000
    assert w.int_ops == 2 * (8 * layer + head) and w.head_int_ops == 2 * head
    assert (w.float_ops, w.head_float_ops) == (0, 0)
    assert w.n_elements == 8 * layer + 2 * head + 17 * 2048
    per = 34 / 32
    assert w.head_bytes == head * per
    assert w.n_bytes == (8 * layer + head + 2048) * per + 17 * 2048 * 4  # one row of the embedding
    case = Case(n_prompt=256, n_gen=0, n_batch=100)
    need = cost.cost(kept, w, case)  # logits of three batches
    assert need.prompt_int_ops == 256 * 2 * 8 * layer + 3 * 2 * head
    assert need.prompt_int_ops / 256 / 1e9 == pytest.approx(0.975, abs=0.002)
    assert (need.prompt_float_ops, need.gen_bytes) == (0, 0)


def test_of_experts_a_token_reads_those_it_uses() -> None:
    bank = Tensor(BY_NAME["q8_0"], (64, 96, 8, 1), name="bank")
    row = Tensor(BY_NAME["f32"], (64, 8, 1, 1), name="router")
    w = cost.weigh({"bank": bank, "router": row, "token_embd.weight": row}, 8, 2)
    assert w.int_ops == 2 * 64 * 96 * 2
    assert w.n_bytes == 2 * 96 * 68 + 256 + 2 * row.n_bytes  # the embedding is the output too
    assert w.file_bytes == bank.n_bytes + 2 * row.n_bytes


def test_generation_reads_weights_and_cache() -> None:
    kept, w = weights_of("llama-1b/2:F16")
    need = cost.cost(kept, w, Case(n_prompt=0, n_gen=3, n_depth=100))
    token = 2 * 512 * 2 * 2  # K and V of 512 f16, two layers
    assert need.gen_bytes == 3 * w.n_bytes + token * (101 + 102 + 103)
    assert need.prompt_int_ops == need.prompt_float_ops == 0
    assert w.int_ops == 0 and w.float_ops > 0


def test_a_window_layer_reads_its_window() -> None:
    kept, w = weights_of("gemma-3-270m/6:Q8_0")  # five window layers of 512, then a full one
    row = 256 * 2 * 2
    assert cost.kept_bytes(kept, 100, "f16", "f16") == 6 * 100 * row
    assert cost.kept_bytes(kept, 4000, "f16", "f16") == (5 * 512 + 4000) * row
    assert cost.kept_bytes(kept, 1, "f32", "q8_0") == 6 * (256 * 4 + 256 // 32 * 34)
    assert w.head_bytes == 640 * 262144 // 32 * 34  # the embedding is the output matrix


def test_ideal_time() -> None:
    need = cost.Cost(prompt_int_ops=100, prompt_float_ops=30, gen_bytes=8)
    assert need.ideal_s(read=4, int8=50, fma=10) == 2 + 3 + 2
    assert math.isnan(need.ideal_s(read=4, int8=0, fma=10))
    assert cost.Cost(0, 0, 8).ideal_s(read=4, int8=0, fma=0) == 2


def test_a_record_of_experts_counts_those_it_can_want() -> None:
    record = empty_nodes(1)[0]
    record["src"][0]["type"], record["src"][0]["ne"] = 8, (64, 96, 8, 1)
    for n_tokens, banks in ((3, 6), (30, 8)):  # two of eight experts for each
        record["dst"]["ne"] = (96, 2, n_tokens, 1)
        want = (68 * 96 * banks, 2 * 64 * 96 * 2 * n_tokens)
        assert _product("mul_mat_id-q8_0-x8", record) == want
    assert _product("mul_mat-q8_0-x8", record) == (68 * 96, 2 * 64 * 96 * 2)
    assert _product("add-f32-f32", record) == (0, 0)


def test_a_token_reads_what_its_layers_keep() -> None:
    """V within K, another layer's cache, chunks, states."""
    shape = CacheShape(
        (1, 0, 2, 2), (64, 64, 32, 32), (32, 64, 32, 32), (False, False, True, True), 10, "chunked",
        v_is_k=(True, False, False, False), share=(0, 1, 2, 2),
    )  # fmt: skip
    kept = cost.Kept(shape, [{}, {"a": (3, 5), "b": (7,)}, {}, {}])
    states, mla, chunk = 4 * 22, 64 * 2, 2 * 2 * (32 * 2 + 34)  # of two layers
    assert cost.kept_bytes(kept, 10, "f16", "q8_0") == states + 10 * mla + 10 * chunk
    assert cost.kept_bytes(kept, 11, "f16", "q8_0") == states + 11 * mla + chunk
