"""Completion: what the scripts offer, asked in the shells that are here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from llamapy.cli.completion import CHOICES
from llamapy.cli.main import COMMANDS, main
from llamapy.cli.pages import pages

NAMES = [row.name for row in COMMANDS]


def script(shell: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    assert main(["completion", shell]) == 0
    path = tmp_path / f"llamapy.{shell}"
    path.write_text(capfd.readouterr().out)
    return path


def ask(shell: str, text: str, folder: Path) -> list[str]:
    (folder / "a model.gguf").touch()
    done = subprocess.run(
        [shell, "-c", text], capture_output=True, text=True, timeout=20, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


CASES = [
    (["ru"], ["run"], ["batch"]),
    (["run", "--mo"], ["--model"], ["--seed"]),
    (["bench", "-ct"], ["-ctk", "-ctv"], ["-m"]),
    (["run", "-ctk", "q8"], ["q8_0"], ["f16", "a model.gguf"]),
    (["run", "-m", "a"], ["a model.gguf"], ["auto"]),
    (["run", "-m", "de"], ["demo"], ["a model.gguf"]),
    (["completion", "z"], ["zsh"], ["bash"]),
    (["run", "--no-esc"], ["--no-escape"], ["--escape"]),
]


def bash_line(path: Path, words: list[str]) -> str:
    """Without a path: completing starts no process."""
    line = " ".join(f"'{w}'" for w in ["llamapy", *words])
    return (
        f"source {path}; compopt() {{ :; }}; PATH=; COMP_WORDS=({line}); COMP_CWORD={len(words)}; "
        '_llamapy; printf "%s\\n" "${COMPREPLY[@]}"'
    )


@pytest.mark.parametrize(("words", "offered", "not_offered"), CASES)
def test_bash(
    words: list[str],
    offered: list[str],
    not_offered: list[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    found = ask("bash", bash_line(script("bash", tmp_path, capfd), words), tmp_path)
    assert set(offered) <= set(found) and not set(not_offered) & set(found)


def test_bash_offers_every_command_and_values_after_an_equals_sign(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = script("bash", tmp_path, capfd)
    assert set(NAMES) <= set(ask("bash", bash_line(path, [""]), tmp_path))
    found = ask("bash", bash_line(path, ["run", "--repack", "=", "o"]), tmp_path)
    assert found == ["on", "off"]
    registered = ask("bash", f"source {path}; complete -p llamapy", tmp_path)
    assert registered == ["complete -o bashdefault -o default -F _llamapy llamapy"]


@pytest.mark.parametrize(("words", "offered", "not_offered"), CASES)
def test_fish(
    words: list[str],
    offered: list[str],
    not_offered: list[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = script("fish", tmp_path, capfd)
    text = f"source {path}; complete -C 'llamapy {' '.join(words)}'"
    found = [line.partition("\t")[0] for line in ask("fish", text, tmp_path)]
    assert set(offered) <= set(found) and not set(not_offered) & set(found)


def test_zsh(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What it hands to zsh's own functions, since those work on a terminal alone."""
    path = script("zsh", tmp_path, capfd)
    stubs = (
        'compdef() { :; }; _arguments() { print -rl -- "$@" };'
        " _describe() { print -rl -- $commands };"
    )
    asked = f"{stubs} source {path}; words=(llamapy run); CURRENT=3; _llamapy"
    found = ask("zsh", asked, tmp_path)
    assert "*--model[GGUF file, or the name of a pulled model.]:value:_files" in found
    assert "*-lm[mmap, read or mmap+mlock. \\[mmap\\]]:value:(mmap read mmap+mlock)" in found
    assert "*--no-escape[Read \\n, \\t, \\xHH in texts.]" in found
    first = ask("zsh", f"{stubs} source {path}; words=(llamapy); CURRENT=2; _llamapy", tmp_path)
    assert [line.partition(":")[0] for line in first] == NAMES


def test_listed_values_are_those_that_help_names() -> None:
    options = [o for page in pages(COMMANDS) for o in page.options]
    for name, values in CHOICES.items():
        having = [o for o in options if name in o.names]
        assert having, name
        if name not in ("--model", "--cache-type-v"):
            assert any(all(v in o.about for v in values) for o in having), name


@pytest.mark.parametrize("args", [[], ["tcsh"]])
def test_another_shell(args: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", *args]) == 2
    out, err = capfd.readouterr()
    assert out == "" and "known: bash, zsh, fish" in err and err.count("\n") == 1
