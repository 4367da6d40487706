"""Pre-tokenizers: how a text is cut before merging, one row per way, by the name in the file.

A row's expressions are applied in order, each cutting what the ones before left whole. No key of
the file tells `ignore_merges` (a piece that is a token is taken as it is) or that a kind starts
with BOS: both hang on the name.
"""

from __future__ import annotations

from dataclasses import dataclass

from llamapy.base.errors import FileError, UsageError, near_match

_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_ENGLISH = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_LINES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_CJK = r"[\x{0800}-\x{9fa5}\x{ac00}-\x{d7ff}]+"

# Letters with case that deepseek-llm was trained to keep together (not all that Unicode has today).
_CASED = (
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376-377 37B-37D 37F 386 "
    "388-38A 38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD "
    "1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D "
    "1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 "
    "1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 "
    "212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183-2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE "
    "2CF2-2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 "
    "FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 "
    "118A0-118DF 1E900-1E943"
)
_MARKS = "21-2F 3A-7E FF01-FF0F FF1A-FF5E 2018-201F 3000-3002"


def _class(ranges: str) -> str:
    """`"41-5A B5"` as the inside of a character class."""
    ends = (r.split("-") for r in ranges.split())
    return "".join("-".join(f"\\x{{{point}}}" for point in pair) for pair in ends)


@dataclass(frozen=True, slots=True)
class Pre:
    """`cut`: where a long text may be cut without changing any id (a cut lies after a match)."""

    names: tuple[str, ...]
    regexes: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    cut: str = r"[A-Za-z](?= [A-Za-z])"


_GPT2 = (_WORDS,)
_DIGITS = (r"\p{N}", _WORDS)
_LLAMA3 = (_ENGLISH + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _LINES,)
_QWEN2 = (_ENGLISH + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _LINES,)

ROWS: tuple[Pre, ...] = (
    Pre(
        ("default",),
        (r"[\p{P}\$\+<=>\^~\|]+", _WORDS, r"\p{N}+", r"[0-9][0-9][0-9]"),
    ),
    Pre(
        ("gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de")
        + ("a.x-4.0", "mellum", "modern-bert", "exaone4", "mpt", "olmo", "jais", "trillion")
        + ("granite-docling",),
        _GPT2,
    ),
    Pre(
        ("starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"),
        _DIGITS,
    ),
    Pre(
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2")
        + ("jina-v5-nano",),
        _LLAMA3,
        ignore_merges=True,
        add_bos=True,
    ),
    Pre(("dbrx", "smaug-bpe", "chatglm-bpe"), _LLAMA3),
    Pre(("glm4", "glm5"), _LLAMA3, ignore_merges=True),
    Pre(
        ("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan")
        + ("solar-open", "grok-2"),
        _QWEN2,
    ),
    Pre(
        ("qwen35",),
        (
            _ENGLISH
            + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
            + _LINES,
        ),
    ),
    Pre(("falcon",), (r"[\p{P}\$\+<=>\^~\|`]+", _WORDS, r"[0-9][0-9][0-9]")),
    Pre(
        ("deepseek-llm",),
        (
            r"[\r\n]",
            rf"\s?[{_class(_CASED)}]+",
            rf"\s?[{_class(_MARKS)}]+",
            r"\s+$",
            _CJK,
            r"\p{N}+",
        ),
    ),
    Pre(("deepseek-coder",), (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
    Pre(("gemma4",), (r"[^\n]+|[\n]+",), cut=r"\n(?=[^\n])"),
)
BY_NAME: dict[str, Pre] = {name: row for row in ROWS for name in row.names}


def choose(in_file: str, asked: str | None, lenient: bool) -> tuple[str, Pre, str]:
    """Name and row to use, and a note when it is not what the file says.

    `asked` is the user's (`--pre`); without it a file whose name is missing, unknown or `default`
    (all of which mean that nobody knows) is refused, unless `lenient`.
    """
    if asked is not None:
        if asked not in BY_NAME:
            known = near_match(asked, BY_NAME)
            raise UsageError(f"--pre {asked}: no such pre-tokenizer{known} (have: {_names()})")
        note = (
            ""
            if asked == in_file
            else f"pre-tokenizer '{asked}' (--pre) instead of {_said(in_file)}"
        )
        return asked, BY_NAME[asked], note
    if in_file in BY_NAME and in_file != "default":
        return in_file, BY_NAME[in_file], ""
    if lenient:
        note = f"{_said(in_file)} for a pre-tokenizer: the default one is used, ids may be wrong"
        return "default", BY_NAME["default"], note
    raise FileError(
        f"tokenizer.ggml.pre: {_said(in_file)}, so text could be cut wrongly"
        f"{near_match(in_file, BY_NAME)}; --pre NAME chooses one ({_names()}), "
        "--lenient takes the default"
    )


def _said(in_file: str) -> str:
    return f"the file's unknown name '{in_file}'" if in_file else "the file names none"


def _names() -> str:
    return " ".join(row.names[0] for row in ROWS)
