"""`llamapy completion SHELL`: a script that completes commands, options and their values.

The script holds all there is to know, so that completing starts no process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from llamapy.base.errors import UsageError
from llamapy.base.paths import KNOWN
from llamapy.base.types import CACHE_TYPES
from llamapy.cli import options, streams
from llamapy.cli.pages import FILES, Option, Page, pages

Shell = Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]

# Values that can be listed, by an option's longest name. Of --model there are files as well.
CHOICES: dict[str, Sequence[str]] = {
    "--cache-type-k": CACHE_TYPES,
    "--cache-type-v": CACHE_TYPES,
    "--load-mode": ("mmap", "read", "mmap+mlock"),
    "--repack": ("auto", "on", "off"),
    "--on-overflow": ("error", "truncate-left", "truncate-middle"),
    "--split-mode": ("layer", "none"),
    "--pooling": ("none", "mean", "cls", "last", "rank"),
    "--normalize": ("l2", "l1", "max", "none"),
    "--kind": ("decode", "prompt"),
    "--model": tuple(KNOWN),
}
OF_ARGUMENT = {
    "completion": ("bash", "zsh", "fish"),
    "pull": tuple(KNOWN),
}


def command(
    shell: Shell = "",
    verbose: options.Verbose = 0,
) -> None:
    """Print a completion script for a shell.

    bash: llamapy completion bash > ~/.local/share/bash-completion/completions/llamapy

    zsh: llamapy completion zsh > FOLDER/_llamapy, where FOLDER is one of $fpath

    fish: llamapy completion fish > ~/.config/fish/completions/llamapy.fish
    """
    options.begin(verbose=verbose)
    if shell not in SCRIPTS:
        asked = f"no completion for '{shell}'" if shell else "for which shell?"
        raise UsageError(f"{asked} (known: {', '.join(SCRIPTS)})")
    from llamapy.cli.main import COMMANDS

    with streams.answer_to(None) as out:
        out.write(SCRIPTS[shell](pages(COMMANDS), {row.name: row.about for row in COMMANDS}))


def choices(option: Option) -> Sequence[str]:
    """The values that an option lists."""
    return next((CHOICES[name] for name in option.names if name in CHOICES), ())


def _takes_file(option: Option) -> bool:
    return option.value in FILES


def _bash(found: Sequence[Page], about: dict[str, str]) -> str:
    names = " ".join(about)
    cases = "\n".join(_bash_case(page) for page in found)
    return f"""\
# bash completion for llamapy
_llamapy() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}}
    local words='' options='' value=
    if [[ $cur == '=' ]]; then
        cur=
    elif [[ $prev == '=' ]]; then
        prev=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        compopt +o default +o bashdefault
        COMPREPLY=($(compgen -W '{names} help --help --version' -- "$cur"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
    help) words='{names}' value=1 ;;
{cases}
    esac
    if [[ ! $value && $cur == -* ]]; then
        compopt +o default +o bashdefault
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    elif [[ $value == 1 ]]; then
        compopt +o default +o bashdefault
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
    elif [[ $words ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur"; compgen -f -- "$cur")
    fi
}}
complete -o bashdefault -o default -F _llamapy llamapy
"""


def _bash_case(page: Page) -> str:
    """What an option's value may be: `value` is 1 for words alone, 2 where files will do."""
    alike: dict[tuple[str, int], list[str]] = {}
    for option in page.options:
        if option.value is not None:
            key = (" ".join(choices(option)), 2 if _takes_file(option) else 1)
            alike.setdefault(key, []).extend(option.names)
    lines = [
        f"        {' | '.join(names)}) words='{words}' value={kind} ;;"
        for (words, kind), names in alike.items()
    ]
    spelled = [n for o in page.options for n in (*o.names, *([o.opposite] if o.opposite else []))]
    words = " ".join(OF_ARGUMENT.get(page.name, ()))
    lines += [f"        *) words='{words}' ;;"] if words else []
    body = "\n".join(["        case $prev in", *lines, "        esac\n"]) if lines else ""
    return f"    {page.name})\n        options='{' '.join(spelled)}'\n{body}        ;;"


def _zsh(found: Sequence[Page], about: dict[str, str]) -> str:
    described = "\n".join(f"            {_zsh_word(f'{n}:{a}')}" for n, a in about.items())
    cases = "\n".join(_zsh_case(page) for page in found)
    return f"""\
#compdef llamapy
_llamapy() {{
    local -a commands
    if (( CURRENT == 2 )) || [[ $words[2] == help ]]; then
        commands=(
{described}
        )
        _describe command commands
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
{cases}
    esac
}}
if [[ $funcstack[1] == _llamapy ]]; then
    _llamapy "$@"
else
    compdef _llamapy llamapy
fi
"""


def _zsh_word(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _zsh_case(page: Page) -> str:
    specs = []
    for option in page.options:
        about = option.meaning.replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        end = "" if option.value is None else f":value:{_zsh_values(option)}"
        specs += [f"*{name}[{about}]{end}" for name in option.names]
        specs += [f"*{option.opposite}[{about}]"] if option.opposite else []
    for argument in page.arguments:
        words = OF_ARGUMENT.get(page.name)
        what = f"({' '.join(words)})" if words else "_files" if _takes_file(argument) else ""
        specs.append(f":{page.name}:{what}")
    body = " \\\n".join(f"            {_zsh_word(spec)}" for spec in specs)
    return f"    {page.name})\n        _arguments \\\n{body}\n        ;;"


def _zsh_values(option: Option) -> str:
    words = " ".join(choices(option))
    if _takes_file(option):
        return "_files"
    return f"({words})" if words else " "


def _fish(found: Sequence[Page], about: dict[str, str]) -> str:
    lines = ["# fish completion for llamapy", "complete -c llamapy -f"]
    for name, what in about.items():
        lines.append(
            f"complete -c llamapy -n __fish_use_subcommand -a {name} -d {_fish_word(what)}"
        )
    lines.append("complete -c llamapy -n __fish_use_subcommand -l help -s h -d 'Show help'")
    lines.append("complete -c llamapy -n __fish_use_subcommand -l version -d 'Show the version'")
    for page in found:
        head = f"complete -c llamapy -n '__fish_seen_subcommand_from {page.name}'"
        for option in page.options:
            names = " ".join(_fish_name(name) for name in option.names)
            lines.append(f"{head} {names}{_fish_values(option)} -d {_fish_word(option.meaning)}")
            if option.opposite:
                lines.append(
                    f"{head} {_fish_name(option.opposite)} -d {_fish_word(option.meaning)}"
                )
        words = OF_ARGUMENT.get(page.name)
        lines += [f"{head} -a '{' '.join(words)}'"] if words else []
        if any(_takes_file(argument) for argument in page.arguments):
            lines.append(f"{head} -F")
    return "\n".join(lines) + "\n"


def _fish_word(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_name(name: str) -> str:
    kind = "l" if name.startswith("--") else "s" if len(name) == 2 else "o"
    return f"-{kind} {name.lstrip('-')}"


def _fish_values(option: Option) -> str:
    """-x: a value and no file; -r -F: a value, files too."""
    if option.value is None:
        return ""
    words = " ".join(choices(option))
    return (" -r -F" if _takes_file(option) else " -x") + (f" -a '{words}'" if words else "")


SCRIPTS: dict[str, Callable[[Sequence[Page], dict[str, str]], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
