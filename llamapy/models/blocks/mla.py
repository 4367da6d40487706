"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): k and v of all heads
are made from one short vector per token.

Absorbed, the cache keeps that vector with the rotated part beside it, as K of one head whose first
elements are V; q is brought to its space (`attn_k_b`) and what attention gives out of it
(`attn_v_b`). Otherwise k and v are made (`attn_kv_b`) and kept for each head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llamapy.graph.ops import make, permute, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import CacheShape
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.attn import Attn, attend, factors, gated, rope, store
from llamapy.models.blocks.linear import linear, linear_tensors
from llamapy.models.blocks.norm import RMS, norm, norm_tensors
from llamapy.models.builder import Builder
from llamapy.models.caches import attention_cache


def mla_cache(hp: HParams) -> CacheShape:
    """Layers that attend keep one head, V within K; where not absorbed, all heads."""
    m, n = hp.mla, hp.n_layer
    if not m.absorbed:
        return replace(
            attention_cache(hp), n_embd_head_k=(m.n_head_k,) * n, n_embd_head_v=(m.n_head_v,) * n
        )
    return replace(
        attention_cache(hp),
        n_head_kv=tuple(1 if h else 0 for h in hp.n_head_kv),
        n_embd_head_k=(m.rank_kv + m.n_rot,) * n,
        n_embd_head_v=(m.rank_kv,) * n,
        v_is_k=(True,) * n,
    )


def _part(x: Tensor, first: int, n: int) -> Tensor:
    """Elements [first, first + n) along ne[0]."""
    return view(x, (n, *x.ne[1:]), x.nb[1:], 4 * first)


def _by_head(x: Tensor) -> Tensor:
    return permute(x, 0, 2, 1)


def _cont(x: Tensor) -> Tensor:
    return make("cpy", x, type="f32")


@dataclass(frozen=True, slots=True)
class MlaAttention:
    """As a Part of a decoder. `attn` says whether and how the rotated part turns, and the gate."""

    attn: Attn

    def tensors(self, hp: HParams, il: int, has: Has) -> list[TensorSpec]:
        m, n_head, pre = hp.mla, hp.n_head[il], f"blk.{il}."
        n_q = n_head * m.n_head_k
        specs = linear_tensors(il, "attn_kv_a_mqa", hp.n_embd, m.rank_kv + m.n_rot)
        specs += norm_tensors(hp, "attn_kv_a_norm", il, (m.rank_kv,))
        if m.rank_q:
            specs += linear_tensors(il, "attn_q_a", hp.n_embd, m.rank_q)
            specs += norm_tensors(hp, "attn_q_a_norm", il, (m.rank_q,))
            specs += linear_tensors(il, "attn_q_b", m.rank_q, n_q)
        else:
            specs += linear_tensors(il, "attn_q", hp.n_embd, n_q)
        if m.absorbed:
            k_b, v_b = (m.n_plain, m.rank_kv, n_head), (m.rank_kv, m.n_head_v, n_head)
            specs.append(TensorSpec(f"{pre}attn_k_b.weight", k_b, il, "layer"))
            specs.append(TensorSpec(f"{pre}attn_v_b.weight", v_b, il, "layer"))
        else:
            specs += linear_tensors(il, "attn_kv_b", m.rank_kv, n_head * (m.n_plain + m.n_head_v))
        if self.attn.gate:
            ne = (hp.n_embd, n_head * m.n_head_v)
            per_head = (hp.n_embd, n_head)
            specs.append(TensorSpec(f"{pre}attn_gate.weight", ne, il, "layer", or_ne=per_head))
        return specs + linear_tensors(il, "attn_output", n_head * m.n_head_v, hp.n_embd)

    def build(self, g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
        """x [n_embd, n_tokens] -> the same"""
        m = g.hp.mla
        q_plain, q_turned = self._q(g, il, x)
        kv = linear(g, il, "attn_kv_a_mqa", x)  # [rank_kv + n_rot, n_tokens]
        short = norm(g, RMS, _part(kv, 0, m.rank_kv), "attn_kv_a_norm", "kv_a_norm", il)
        turned = view(kv, (m.n_rot, 1, kv.ne[1]), (4 * m.n_rot, kv.nb[1]), 4 * m.rank_kv)
        turned = self._rope(g, il, turned)  # [n_rot, 1, n_tokens]
        attend_ = self._absorbed if m.absorbed else self._decompressed
        out = attend_(g, il, q_plain, q_turned, short, turned)
        if self.attn.gate:
            out = gated(g, il, out, x, self.attn.gate)
        return linear(g, il, "attn_output", out)

    def _q(self, g: Builder, il: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """The plain and the turned part, [.., n_head, n_tokens]."""
        m = g.hp.mla
        if m.rank_q:
            a = norm(g, RMS, linear(g, il, "attn_q_a", x), "attn_q_a_norm", "q_a_norm", il)
            q = linear(g, il, "attn_q_b", a)
        else:
            q = linear(g, il, "attn_q", x)
        q = reshape(q, m.n_head_k, g.hp.n_head[il], x.ne[1])
        scale = self.attn.q_scale(g, il) if self.attn.q_scale else None
        if scale is not None:
            q = make("mul", q, scale)
        return _part(q, 0, m.n_plain), self._rope(g, il, _part(q, m.n_plain, m.n_rot))

    def _rope(self, g: Builder, il: int, x: Tensor) -> Tensor:
        a = self.attn
        return _cont(x) if a.rope is None else rope(g, il, x, a.rope, factors(g, il, a), x.ne[0])

    def _absorbed(
        self, g: Builder, il: int, q_plain: Tensor, q_turned: Tensor, short: Tensor, turned: Tensor
    ) -> Tensor:
        m, n = g.hp.mla, short.ne[1]
        near = make("mul_mat", g.layer(il, "attn_k_b.weight"), _cont(_by_head(q_plain)))
        q = make("concat", _cont(_by_head(near)), q_turned, axis=0)
        k = make("concat", reshape(short, m.rank_kv, 1, n), turned, axis=0)
        g.expand(g.name(q, "q", il), g.name(k, "k", il))
        store(g, il, k, None)
        out = reshape(attend(g, il, q), m.rank_kv, g.hp.n_head[il], n)
        v = make("mul_mat", g.layer(il, "attn_v_b.weight"), _cont(_by_head(out)))
        return reshape(_cont(_by_head(v)), m.n_head_v * g.hp.n_head[il], n)

    def _decompressed(
        self, g: Builder, il: int, q_plain: Tensor, q_turned: Tensor, short: Tensor, turned: Tensor
    ) -> Tensor:
        m, n, n_head = g.hp.mla, short.ne[1], g.hp.n_head[il]
        kv = reshape(linear(g, il, "attn_kv_b", short), m.n_plain + m.n_head_v, n_head, n)
        k_plain, v = _part(kv, 0, m.n_plain), _part(kv, m.n_plain, m.n_head_v)
        shared = turned  # one for all heads
        for _ in range(n_head - 1):
            shared = make("concat", shared, turned, axis=1)
        q, k = q_turned, shared
        if m.n_plain:
            q = make("concat", q_plain, q_turned, axis=0)
            k = make("concat", k_plain, shared, axis=0)
        g.expand(g.name(q, "q", il), g.name(k, "k", il))
        store(g, il, k, v)
        return attend(g, il, q)
