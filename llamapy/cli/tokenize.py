"""`llamapy tokenize`: the tokens of a text, or the text of tokens."""

from __future__ import annotations

import json as jsonlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llamapy.base.errors import UsageError
from llamapy.base.log import log
from llamapy.cli import options, streams

if TYPE_CHECKING:
    from llamapy.app.tokenize import Piece

Text = Annotated[str | None, typer.Argument(metavar="TEXT", help="The text; -: stdin.")]
Prompt = Annotated[
    str | None, typer.Option("-p", "--prompt", metavar="TEXT", help="The same, as an option.")
]
File = Annotated[
    str | None, typer.Option("-f", "--file", metavar="FILE", help="The text, byte for byte.")
]
Tokens = Annotated[
    str | None, typer.Option("--tokens", metavar="1,2,3", help="Ids: print their text instead.")
]
Ids = Annotated[bool, typer.Option("--ids", help="Print the ids alone, on one line.")]
Special = Annotated[
    bool, typer.Option("--special/--no-special", help="Control tokens written in it count.")
]
Bos = Annotated[bool, typer.Option("--bos/--no-bos", help="BOS and EOS as the file asks.")]
Escape = Annotated[
    bool, typer.Option("-e", "--escape/--no-escape", help=r"Read \n, \t, \xHH in the text.")
]
Roundtrip = Annotated[
    bool, typer.Option("--check-roundtrip", help="Fail unless the tokens give the text back.")
]
Pre = Annotated[
    str | None, typer.Option("--pre", metavar="NAME", help="Pre-tokenizer, over the file's own.")
]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Accept an unknown pre-tokenizer, with a warning.")
]


def command(
    text: Text = None,
    model: options.Model = None,
    prompt: Prompt = None,
    file: File = None,
    tokens: Tokens = None,
    ids: Ids = False,
    special: Special = False,
    bos: Bos = True,
    escape: Escape = False,
    check_roundtrip: Roundtrip = False,
    pre: Pre = None,
    lenient: Lenient = False,
    json: options.Json = False,
    verbose: options.Verbose = 0,
    strict: options.Strict = False,
) -> None:
    """Print one token per line: id, place in bytes, text. No text given: stdin."""
    options.begin(verbose=verbose, json=json, strict=strict)
    raw = None if tokens is not None else _text(text, prompt, file, escape)
    if tokens is not None and (text, prompt, file) != (None, None, None):
        raise UsageError("--tokens and a text are both given: which way?")
    from llamapy.app import tokenize as app

    tokenizer = app.open_tokenizer(options.resolve_model(model), pre=pre, lenient=lenient)
    if raw is None:
        _print_text(tokenizer.decode(app.parse_ids(tokens or ""), special=special), json)
        return
    found = tokenizer.encode(raw, add_special=bos, parse_special=special)
    if not special and (texts := tokenizer.specials_in(raw)):
        log.warn("W06", f"the text contains {texts[0]!r} as plain text (--special reads it)")
    if check_roundtrip:
        app.check_roundtrip(tokenizer, found, raw)
    _print(app.pieces(tokenizer, found, raw), tokenizer, ids, json)


def _text(text: str | None, prompt: str | None, file: str | None, escape: bool) -> bytes:
    if sum(given is not None for given in (text, prompt, file)) > 1:
        raise UsageError("give the text once: as an argument, with -p, or with -f")
    given = text if text is not None else prompt
    if file is not None:
        raw = streams.read_file(file)
    elif given is not None and given != "-":
        raw = given.encode("utf-8", "surrogateescape")
    elif given is None and streams.is_terminal(sys.stdin):
        raise UsageError("no text: give it as an argument, with -p or -f, or pipe it in")
    else:
        raw = streams.read_stdin()
    if escape:
        from llamapy.app.escapes import unescape

        return unescape(raw)
    return raw


def _print_text(raw: bytes, json: bool) -> None:
    from llamapy.app.tokenize import text_fields

    with streams.answer_to(None) as out:
        if not json:
            out.write(raw)
            return
        fields = {"schema_version": 1, "command": "tokenize", **text_fields("text", raw)}
        out.write(jsonlib.dumps(fields, ensure_ascii=False) + "\n")


def _print(found: list[Piece], tokenizer: Any, ids: bool, json: bool) -> None:
    from llamapy.app.tokenize import about, as_json

    with streams.answer_to(None) as out:
        if json:
            fields = {
                "schema_version": 1,
                "command": "tokenize",
                "n_tokens": len(found),
                "ids": [p.id for p in found],
                "tokens": [as_json(p) for p in found],
                "tokenizer": about(tokenizer),
                "warnings": log.warned,
            }
            out.write(jsonlib.dumps(fields, ensure_ascii=False) + "\n")
        elif ids:
            out.write(",".join(str(p.id) for p in found) + "\n")
        else:
            out.write("".join(f"{p.id:>7}  {_place(p):<11}  {_shown(p.bytes)}\n" for p in found))


def _place(p: Piece) -> str:
    if p.start is None:
        return "?"
    return "added" if p.added else f"{p.start}-{p.end}"


def _shown(piece: bytes) -> str:
    """A JSON string, bytes that are no text as \\xHH: on one line, without control characters."""
    text = piece.decode("utf-8", "backslashreplace")
    return jsonlib.dumps(text, ensure_ascii=not text.isprintable())
