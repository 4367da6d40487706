"""From argv to an exit code. Imports neither numpy nor a command before it is asked for.

`COMMANDS` is the whole list: name, module, one line of help. A module exposes `command`, a function
with typer-annotated parameters, which returns an exit code or nothing.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import llamapy
from llamapy.base import flags as environment
from llamapy.base.errors import LlamapyError, MemoryBudgetError, UsageError, near_match
from llamapy.base.log import log
from llamapy.cli import streams


class Row(NamedTuple):
    name: str
    module: str
    about: str


COMMANDS: tuple[Row, ...] = (
    Row("run", "llamapy.cli.run", "generate text from a prompt"),
    Row("batch", "llamapy.cli.batch", "answer many prompts from JSON lines, several at a time"),
    Row("logits", "llamapy.cli.logits", "write the logits of given tokens to a .npy file"),
    Row("embed", "llamapy.cli.embed", "texts as vectors"),
    Row("perplexity", "llamapy.cli.perplexity", "how well a model foretells a text"),
    Row("score", "llamapy.cli.score", "how likely given continuations of contexts are"),
    Row("tokenize", "llamapy.cli.tokenize", "text to token ids, or back"),
    Row("inspect", "llamapy.cli.inspect", "keys and tensors of a GGUF file, damaged ones too"),
    Row("verify", "llamapy.cli.verify", "whether a GGUF file is sound, to the last number"),
    Row("plan", "llamapy.cli.plan", "how much memory a model takes, and whether it fits"),
    Row("graph", "llamapy.cli.graph", "the planned graph: nodes, memory, devices, fusions"),
    Row("bench", "llamapy.cli.bench", "tokens per second, and how much of the machine that is"),
    Row("pull", "llamapy.cli.pull", "fetch a model into the cache"),
    Row("doctor", "llamapy.cli.doctor", "what this machine offers and what was chosen"),
    Row("completion", "llamapy.cli.completion", "a script that completes the command line"),
)

INTERRUPTED = 130
USAGE = "usage: llamapy COMMAND [OPTIONS]    (llamapy COMMAND --help lists its options)"
EXIT_CODES = """exit codes:
  0 ok   1 internal fault   2 usage   3 model file   4 context too small   5 not enough memory
  6 constraint not satisfied   7 some items of a batch failed   8 NaN or Inf in the logits
  130 interrupted   141 broken pipe"""


def help_text() -> str:
    rows = "\n".join(f"  {row.name:<10} {row.about}" for row in COMMANDS)
    return (
        f"{USAGE}\n\nA GGUF model runner: the answer on stdout, everything else on stderr.\n\n"
        f"commands:\n{rows}\n\noptions:\n  -h, --help\n  --version\n\n{EXIT_CODES}\n"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code. KeyboardInterrupt and bugs of ours pass through."""
    args = list(sys.argv[1:] if argv is None else argv)
    log.setup(json="--json" in args or "--json-stream" in args)
    try:
        code = _dispatch(args)
        streams.flush_stdout()
    except LlamapyError as e:
        if e.exit_code == INTERRUPTED:
            raise KeyboardInterrupt from e
        log.error(e)
        return e.exit_code
    except MemoryError:
        error = MemoryBudgetError("not enough memory: the system gave no more; try a smaller input")
        log.error(error)
        return error.exit_code
    except BrokenPipeError:
        streams.drop_stdout()
        return 141
    except OSError as e:
        if not streams.disk_full(e):
            raise
        streams.drop_stdout()
        log.error(LlamapyError(f"cannot write to stdout: {e.strerror}"))
        return 1
    return code


def _dispatch(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help", "help"):
        if args[1:] and args[0] == "help":
            return _dispatch([args[1], "--help"])
        sys.stdout.write(help_text())
        return 0
    if args[0] in ("--version", "-V"):
        sys.stdout.write(f"llamapy {llamapy.__version__}\n")
        return 0
    rows = {row.name: row for row in COMMANDS}
    if args[0].startswith("-"):
        raise UsageError(f"a command comes first, got {args[0]}; {USAGE}")
    if args[0] not in rows:
        near = near_match(args[0], rows)
        raise UsageError(f"no such command: {args[0]}{near} (llamapy --help lists them)")
    return _call(rows[args[0]], args[1:])


def _call(row: Row, args: list[str]) -> int:
    """Parse by the command's own declaration and call it."""
    from importlib import import_module

    import typer

    from llamapy.cli import pages
    from llamapy.cli.argv import normalise

    for flag in environment.FLAGS:
        getattr(environment, flag.kind)(flag.name)  # a bad value is refused before any work
    parser = pages.parser_of(import_module(row.module).command)
    parser.get_help = lambda context: pages.text(pages.page_of(row.name, row.module)).rstrip()
    flags, positionals = _declared(parser)
    plain = normalise(args, flags, positionals=positionals)
    try:
        with parser.make_context(f"llamapy {row.name}", plain) as context:
            result = parser.invoke(context)
    except typer.Exit as e:
        return int(e.exit_code)
    except Exception as e:
        # The parser's usage errors: their class moved between releases, their method did not.
        if not hasattr(e, "format_message"):
            raise
        message = " ".join(e.format_message().split())
        raise UsageError(f"{message} (llamapy {row.name} --help)") from None
    return result if isinstance(result, int) else 0


def _declared(parser: Any) -> tuple[list[Any], bool]:
    from llamapy.cli.argv import Flag

    flags = [Flag(("-h", "--help"), False)]
    positionals = False
    for p in parser.params:
        if p.param_type_name == "argument":
            positionals = True
            continue
        switch = p.is_flag or p.count
        flags.append(Flag(tuple(p.opts), not switch, next(iter(p.secondary_opts), None)))
    return flags, positionals


def entry() -> NoReturn:
    """The console script: `main` in a process of its own."""
    # Opening a model makes hundreds of thousands of objects that last (a vocabulary, a graph); the
    # collector's usual pace would walk over them again and again before the first token.
    gc.set_threshold(200_000, 20, 20)
    # numpy multiplies nothing large here, but its library starts a thread for each core, which then
    # spins for 0.1 s beside ours.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    streams.prepare()
    try:
        streams.listen_to_interrupts(True)
        code = main()
        streams.listen_to_interrupts(False)
        streams.settle()
    except KeyboardInterrupt as e:
        if not e.args:  # else the command has said more
            log.note("interrupted")
        streams.die_by_interrupt()
    sys.exit(code)
