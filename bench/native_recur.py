"""What ops with states cost a prompt: time per token and layer, beside the products of that layer.

    python bench/native_recur.py [-t THREADS] [--isa avx512] [--tokens 256] [--type q8_0] [OP ...]

Shapes are those of real models' layers. Products: as many weights as a token passes in such a
layer, at the speed of one product of the type with as many columns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "native"))
sys.path.insert(0, str(Path(__file__).parent))
import cases_recur
from cases_matmul import activations, weights
from harness import Case, result, row_of
from native_rows import seconds

from llamapy.ffi.lib import load


@dataclass(frozen=True)
class Layer:
    """`n_weights`: that a token is multiplied by in one layer, feed-forward or experts included."""

    name: str
    op: str
    n_weights: int
    call: Callable[[np.random.Generator], cases_recur.Recur]


LAYERS = (
    Layer(
        "qwen3next-80b-a3b", "gated_delta_net", 2048 * (12288 + 64 + 4096) + 2048 * 512 * 33,
        lambda rng: cases_recur.gated_delta_net(rng, 128, 128, 16, 32, False, 0),
    ),
    Layer(
        "kimi-linear-48b-a3b", "gated_delta_net", 2304 * 4096 * 4 + 3 * 2304 * 1024 * 9,
        lambda rng: cases_recur.gated_delta_net(rng, 128, 128, 32, 32, True, 0),
    ),
    Layer(
        "mamba2-2.7b", "ssm_scan", 2560 * (10576 + 5120),
        lambda rng: cases_recur.ssm_scan(rng, 128, 64, 80, 1, False),
    ),
    Layer(
        "mamba-2.8b", "ssm_scan", 2560 * (10240 + 5120) + 5120 * 352,
        lambda rng: cases_recur.ssm_scan(rng, 16, 1, 5120, 1, True),
    ),
    Layer(
        "minimax-01", "gated_linear_attn", 6144 * 8192 * 5 + 3 * 6144 * 9216 * 2,
        lambda rng: cases_recur.gated_linear_attn(rng, 128, 128, 64, False),
    ),
    Layer(
        "rwkv6-1.6b", "rwkv_wkv6", 2048 * 2048 * 6 + 2 * 2048 * 7168,
        lambda rng: cases_recur.rwkv_wkv6(rng, 64, 64, 32),
    ),
    Layer(
        "rwkv7-1.5b", "rwkv_wkv7", 2048 * 2048 * 4 + 2 * 2048 * 8192,
        lambda rng: cases_recur.rwkv_wkv7(rng, 64, 64, 32),
    ),
)  # fmt: skip


def product(kind: str, n_tokens: int, rng: np.random.Generator) -> tuple[Case, int]:
    k, m = 2048, 1024
    x = activations(rng, "f32" if kind == "f32" else "x8", n_tokens, k)
    return Case([weights(rng, kind, (k, m)), x], result("f32", (m, n_tokens))), k * m


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("-t", type=int, default=1)
    p.add_argument("--isa", default="avx512")
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--type", default="q8_0")
    p.add_argument("ops", nargs="*")
    args = p.parse_args()
    rng, n = np.random.default_rng(0), args.tokens
    cases_recur.N_TOKENS = n
    case, n_weights = product(args.type, n, rng)
    best = [
        row
        for isa in ("avx2", "avx512", "avx512vnni")
        if not (row := row_of("mul_mat", args.type, "x8", isa)).need & ~load().features
    ][-1]
    per_weight = seconds(best, case, args.t) / n / n_weights
    print(f"products: {args.type} {1e-9 / per_weight:.0f} weights/ns, {n} tokens, {args.t} threads")
    for layer in LAYERS:
        if args.ops and layer.op not in args.ops:
            continue
        call = replace(layer.call(rng), runs=[(0, n, 2, 4)])
        t = seconds(row_of(layer.op, "f32", "f32", args.isa), call.case(), args.t) / n
        rest = per_weight * layer.n_weights
        state = call.state[0].nbytes / t / 1e9
        print(
            f"{layer.op:18} {layer.name:20} {t * 1e6:7.2f} us of {(t + rest) * 1e6:8.1f} us: "
            f"{100 * t / (t + rest):5.1f} %   state {state:6.1f} GB/s",
            flush=True,
        )


if __name__ == "__main__":
    main()
