"""graniteswitch: granite with adapters of low rank beside every matrix, which tokens of the text
switch on; a head of attention whose keys say which token is one tells the others."""

from __future__ import annotations

from llamapy.kv.api import CacheShape
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_adapters
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models import granite
from llamapy.models.blocks.decoder import build_decoder, decoder_tensors
from llamapy.models.blocks.switched import embed, route, switched_tensors
from llamapy.models.builder import Builder
from llamapy.models.caches import attention_cache
from llamapy.models.granite import decoder as granite_decoder

HANDLES = granite.HANDLES


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_adapters(file, granite.hparams(file, hp))


def cache(hp: HParams) -> CacheShape:
    """One layer more, of one head: that of what is switched on."""
    own = attention_cache(hp)
    return CacheShape(
        (*own.n_head_kv, 1),
        (*own.n_embd_head_k, hp.n_embd_head_k),
        (*own.n_embd_head_v, hp.n_embd_head_v),
    )


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    specs = decoder_tensors(granite_decoder(hp), hp, has)
    for il in range(hp.n_layer):
        n, n_ff = hp.n_embd, hp.n_ff[il]
        n_q, n_kv = hp.head_k(il) * hp.n_head[il], hp.n_embd_k_gqa(il)
        for name, n_in, n_out in (
            *(("attn_q", n, n_q), ("attn_k", n, n_kv), ("attn_v", n, n_kv)),
            *(("attn_output", n_q, n), ("ffn_gate", n, n_ff), ("ffn_up", n, n_ff)),
            ("ffn_down", n_ff, n),
        ):
            specs += switched_tensors(hp, il, name, n_in, n_out)
    return specs


def build(g: Builder) -> None:
    g.adapter_ids = route(g, g.hp.n_layer)
    build_decoder(g, granite_decoder(g.hp), embed(g))
