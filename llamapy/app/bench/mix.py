"""Which type each tensor gets in a file of a given kind: the mixes that files in the wild have.

The rules are those of llama-quantize, with an importance matrix where a kind needs one: attn_v and
ffn_down carry more bits in the K mixes, the output matrix has six.
"""

from __future__ import annotations

from dataclasses import dataclass

from llamapy.base.errors import UsageError, near_match

# Kind of file: the type of what no rule names.
KINDS = {
    "F32": "f32", "F16": "f16", "BF16": "bf16", "Q4_0": "q4_0", "Q4_1": "q4_1", "Q5_0": "q5_0",
    "Q5_1": "q5_1", "Q8_0": "q8_0", "Q2_K": "q2_K", "Q2_K_S": "q2_K", "Q3_K_S": "q3_K",
    "Q3_K_M": "q3_K", "Q3_K_L": "q3_K", "Q4_K_S": "q4_K", "Q4_K_M": "q4_K", "Q5_K_S": "q5_K",
    "Q5_K_M": "q5_K", "Q6_K": "q6_K", "IQ1_S": "iq1_s", "IQ1_M": "iq1_m", "IQ2_XXS": "iq2_xxs",
    "IQ2_XS": "iq2_xs", "IQ2_S": "iq2_xs", "IQ2_M": "iq2_s", "IQ3_XXS": "iq3_xxs",
    "IQ3_XS": "iq3_s", "IQ3_S": "iq3_s", "IQ3_M": "iq3_s", "IQ4_NL": "iq4_nl",
    "IQ4_XS": "iq4_xs", "TQ1_0": "tq1_0", "TQ2_0": "tq2_0", "MXFP4": "mxfp4", "NVFP4": "nvfp4",
    "Q1_0": "q1_0", "Q2_0": "q2_0",
}  # fmt: skip
ALIASES = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}
FLOATS = ("f32", "f16", "bf16")
# Rows that are no multiple of the block: the next type that fits them.
NARROWER = {
    "q2_K": "q4_0", "q3_K": "q4_0", "q4_K": "q5_0", "q5_K": "q5_1", "q6_K": "q8_0",
    "tq1_0": "q4_0", "tq2_0": "q4_0", "q2_0": "q4_0", "q1_0": "q4_0", "nvfp4": "q4_0",
}  # fmt: skip
LOW = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M")
EMBED = {
    "IQ1_S": "q2_K", "IQ1_M": "q2_K", "IQ2_XXS": "q2_K", "IQ2_XS": "q2_K", "IQ2_S": "iq3_s",
    "IQ2_M": "iq3_s", "IQ3_XXS": "iq3_s", "TQ1_0": "q4_K", "TQ2_0": "q4_K", "Q2_0": "q4_K",
}  # fmt: skip
ATTN_OUT = {
    "Q2_K": "q3_K", "Q3_K_M": "q4_K", "Q3_K_L": "q5_K", "IQ3_XXS": "iq3_s", "IQ3_M": "q4_K",
    "IQ1_S": "iq2_xxs", "IQ1_M": "iq2_xxs", "IQ2_S": "iq3_s", "IQ2_M": "iq3_s",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Where:
    """A matrix: its name, layer (None outside of layers) of how many, query heads per K/V head, and
    whether it is multiplied with the last activation (the embedding, where there is no other)."""

    name: str
    layer: int | None
    n_layer: int
    n_gqa: int
    is_output: bool


def kind_named(text: str) -> str:
    """The kind of file, whatever the case. UsageError when there is none of that name."""
    name = ALIASES.get(text.upper(), text.upper())
    if name not in KINDS:
        near = near_match(name, KINDS)
        raise UsageError(f"no type of file '{text}'{near} (known: {', '.join(KINDS)})")
    return name


def type_name(kind: str, where: Where, row: int, blocks: dict[str, int]) -> str:
    """The type of a matrix with rows of `row` elements; `blocks`: elements per block by type."""
    base = KINDS[kind]
    if base in FLOATS:
        return base
    if where.is_output:
        wanted = _output(kind)
        return wanted if row % blocks[wanted] == 0 else _fit("q8_0", row, blocks)
    if where.name == "token_embd.weight":
        return _fit(EMBED.get(kind, base), row, blocks)
    return _fit(_in_layer(kind, where), row, blocks)


def _output(kind: str) -> str:
    if kind in ("Q8_0", "MXFP4"):
        return "q8_0"
    return "q5_K" if kind in LOW or kind == "IQ3_XXS" else "q6_K"


def _fit(name: str, row: int, blocks: dict[str, int]) -> str:
    if row % blocks[name] == 0:
        return name
    smaller = NARROWER.get(name, "iq4_nl" if name.startswith("iq") else "f16")
    return smaller if row % blocks[smaller] == 0 else "f16"


def _in_layer(kind: str, where: Where) -> str:
    part = where.name.split(".")[-2]
    if part in ("attn_v", "attn_qkv", "attn_kv_b"):
        return _attn_v(kind, where)
    if part == "ffn_down":
        return _ffn_down(kind, where)
    if part == "attn_output":
        return ATTN_OUT.get(kind, KINDS[kind])
    return KINDS[kind]


def _more_bits(where: Where) -> bool:
    """First and last eighth of the layers, and every third between."""
    i, eighth = where.layer or 0, where.n_layer // 8
    return i < eighth or i >= 7 * where.n_layer // 8 or (i - eighth) % 3 == 2


def _attn_v(kind: str, where: Where) -> str:
    base, i, wide = KINDS[kind], where.layer or 0, where.n_gqa >= 4
    if kind in LOW:
        low = "iq3_s" if kind in ("IQ2_S", "IQ2_M") else "q2_K"
        return "q4_K" if wide else low
    rules = {
        "Q2_K": "q4_K" if wide else "q3_K",
        "Q2_K_S": "q4_K" if wide else base,
        "Q3_K_M": "q5_K" if i < 2 else "q4_K",
        "Q3_K_L": "q5_K",
        "IQ4_NL": "q5_K" if wide else base,
        "IQ4_XS": "q5_K" if wide else base,
        "IQ3_XXS": "q4_K" if wide else base,
        "IQ3_XS": "q4_K" if wide else base,
        "IQ3_S": "q4_K" if wide else base,
        "IQ3_M": "q4_K",
        "Q4_K_S": "q5_K" if i < 4 else base,
        "Q4_K_M": "q6_K" if _more_bits(where) else base,
        "Q5_K_M": "q6_K" if _more_bits(where) else base,
    }
    return rules.get(kind, base)


def _ffn_down(kind: str, where: Where) -> str:
    base, i, n = KINDS[kind], where.layer or 0, where.n_layer
    if kind in LOW:
        up = "iq3_s" if kind in ("IQ2_S", "IQ2_M") else "q2_K"
        return up if i < n // 8 else base
    rules = {
        "Q2_K": "q3_K",
        "Q2_K_S": "q4_K" if i < n // 8 else base,
        "Q3_K_M": "q5_K" if i < n // 16 else "q4_K",
        "Q3_K_L": "q5_K",
        "Q4_K_S": "q5_K" if i < n // 8 else base,
        "Q4_K_M": "q6_K" if _more_bits(where) else base,
        "Q5_K_M": "q6_K" if _more_bits(where) else base,
    }
    return rules.get(kind, base)
