"""Small hybrids of random weights, with what the reference set lacks: Jamba with experts in some
layers, Nemotron with experts in a space of their own. Heads and widths are written as converters
write them: heads of q once, heads of k and v by layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from random_rwkv7 import RandomFile

N_EMBD, N_FF, N_VOCAB, HEAD, N_HEAD, N_HEAD_KV = 64, 48, 128, 16, 4, 2
N_EXPERT, N_USED, N_LATENT, N_SHARED = 6, 2, 32, 40
INNER, STATE, CONV = 128, 16, 4


def _norm(f: RandomFile, name: str, *ne: int) -> None:
    f.normal(f"{name}.weight", ne or (N_EMBD,), 1.0, 0.2)


def _start(arch: str, heads_kv: Sequence[int], n_ff: Sequence[int], **ssm: int) -> RandomFile:
    f = RandomFile(7)
    w = f.writer.text("general.architecture", arch)
    for name, number in {
        "vocab_size": N_VOCAB,
        "context_length": 256,
        "embedding_length": N_EMBD,
        "block_count": len(heads_kv),
        "attention.head_count": N_HEAD,
        "expert_count": N_EXPERT,
        "expert_used_count": N_USED,
        "ssm.conv_kernel": CONV,
        "ssm.inner_size": INNER,
        "ssm.state_size": STATE,
        **{f"ssm.{key}": number for key, number in ssm.items()},
    }.items():
        w.u32(f"{arch}.{name}", number)
    w.array(f"{arch}.attention.head_count_kv", "u32", heads_kv)
    w.array(f"{arch}.feed_forward_length", "u32", n_ff)
    w.f32(f"{arch}.attention.layer_norm_epsilon", 1e-5)
    w.f32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5)
    f.normal("token_embd.weight", (N_EMBD, N_VOCAB))
    return f


def _end(f: RandomFile, path: Path) -> Path:
    _norm(f, "output_norm")
    f.matrix("output", N_EMBD, N_VOCAB)
    return f.writer.save(path)


def _attention(f: RandomFile, blk: str) -> None:
    f.matrix(f"{blk}.attn_q", N_EMBD, N_HEAD * HEAD)
    f.matrix(f"{blk}.attn_k", N_EMBD, N_HEAD_KV * HEAD)
    f.matrix(f"{blk}.attn_v", N_EMBD, N_HEAD_KV * HEAD)
    f.matrix(f"{blk}.attn_output", N_HEAD * HEAD, N_EMBD)


def _experts(f: RandomFile, blk: str, names: Sequence[str], n: int) -> None:
    f.matrix(f"{blk}.ffn_gate_inp", N_EMBD, N_EXPERT)
    for name in names:
        f.normal(f"{blk}.ffn_{name}_exps.weight", (n, N_FF, N_EXPERT), 0.0, n**-0.5)
    f.normal(f"{blk}.ffn_down_exps.weight", (N_FF, n, N_EXPERT), 0.0, N_FF**-0.5)


def _scan(f: RandomFile, blk: str, a: Sequence[int], d: Sequence[int], channels: int) -> None:
    """A around -1, step sizes of several lengths."""
    f.normal(f"{blk}.ssm_conv1d.weight", (CONV, channels), 0.0, 0.5)
    f.normal(f"{blk}.ssm_conv1d.bias", (channels,), 0.0, 0.2)
    f.normal(f"{blk}.ssm_a", a, -1.0, 0.3)
    f.normal(f"{blk}.ssm_d", d, 1.0, 0.2)
    f.matrix(f"{blk}.ssm_out", INNER, N_EMBD)


def jamba(path: Path, rank: int = 6) -> Path:
    """Mamba, attention, Mamba with experts."""
    f = _start("jamba", (0, N_HEAD_KV, 0), (N_FF,) * 3, time_step_rank=rank)
    for il in range(3):
        blk = f"blk.{il}"
        _norm(f, f"{blk}.attn_norm")
        _norm(f, f"{blk}.ffn_norm")
        if il == 1:
            _attention(f, blk)
        else:
            f.matrix(f"{blk}.ssm_in", N_EMBD, 2 * INNER)
            _scan(f, blk, (STATE, INNER), (INNER,), INNER)
            f.matrix(f"{blk}.ssm_x", INNER, rank + 2 * STATE)
            f.matrix(f"{blk}.ssm_dt", rank, INNER)
            f.normal(f"{blk}.ssm_dt.bias", (INNER,), -1.0, 1.0)
            for name, n in (("dt", rank), ("b", STATE), ("c", STATE)):
                _norm(f, f"{blk}.ssm_{name}_norm", n)
        if il == 2:
            _experts(f, blk, ("gate", "up"), N_EMBD)
        else:
            for name, n_in, n_out in (
                ("gate", N_EMBD, N_FF),
                ("up", N_EMBD, N_FF),
                ("down", N_FF, N_EMBD),
            ):
                f.matrix(f"{blk}.ffn_{name}", n_in, n_out)
    return _end(f, path)


def nemotron_h_moe(path: Path, n_head: int = 8, n_group: int = 2) -> Path:
    """Mamba-2, experts, attention, experts."""
    f = _start("nemotron_h_moe", (0, 0, N_HEAD_KV, 0), (0, N_FF, 0, N_FF),
               time_step_rank=n_head, group_count=n_group)  # fmt: skip
    for name, number in {
        "expert_feed_forward_length": N_FF,
        "expert_shared_feed_forward_length": N_SHARED,
        "moe_latent_size": N_LATENT,
    }.items():
        f.writer.u32(f"nemotron_h_moe.{name}", number)
    f.writer.key("nemotron_h_moe.expert_weights_norm", "bool", True)
    f.writer.f32("nemotron_h_moe.expert_weights_scale", 2.5)
    mixed = INNER + 2 * n_group * STATE
    for il, kind in enumerate(("mamba", "experts", "attention", "experts")):
        blk = f"blk.{il}"
        _norm(f, f"{blk}.attn_norm")
        if kind == "mamba":
            f.matrix(f"{blk}.ssm_in", N_EMBD, INNER + mixed + n_head)
            _scan(f, blk, (1, n_head), (1, n_head), mixed)
            f.normal(f"{blk}.ssm_dt.bias", (n_head,), -1.0, 1.0)
            _norm(f, f"{blk}.ssm_norm", INNER // n_group, n_group)
        elif kind == "attention":
            _attention(f, blk)
        else:
            _experts(f, blk, ("up",), N_LATENT)
            f.normal(f"{blk}.exp_probs_b.bias", (N_EXPERT,), 0.0, 0.3)
            f.matrix(f"{blk}.ffn_latent_down", N_EMBD, N_LATENT)
            f.matrix(f"{blk}.ffn_latent_up", N_LATENT, N_EMBD)
            f.matrix(f"{blk}.ffn_up_shexp", N_EMBD, N_SHARED)
            f.matrix(f"{blk}.ffn_down_shexp", N_SHARED, N_EMBD)
    return _end(f, path)
