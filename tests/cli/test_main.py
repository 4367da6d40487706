"""The command line as a process: quick, quiet, and ending as it should."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import llamapy
from llamapy.base.errors import FileError, LlamapyError
from llamapy.cli import main as cli

HEAVY = {"numpy", "tokenizers", "sentencepiece", "jinja2", "rich", "typer", "huggingface_hub"}
ROOT = Path(llamapy.__file__).parent.parent


def llamapy_cli(*args: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "llamapy", *args]
    return subprocess.run(command, capture_output=True, timeout=60, cwd=ROOT, **more)  # type: ignore[call-overload,no-any-return]


def modules_after(*args: str) -> set[str]:
    """Names of the top-level packages that a run with `args` has imported."""
    code = (
        "import sys; from llamapy.cli.main import main\n"
        f"try: main({list(args)!r})\n"
        "except SystemExit: pass\n"
        "print('|' + ' '.join({m.partition('.')[0] for m in sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert out.returncode == 0, out.stderr
    return set(out.stdout.rpartition("|")[2].split())


@pytest.mark.parametrize("args", [("--help",), ("--version",), (), ("rum",)])
def test_nothing_heavy_is_imported_for_help_and_version(args: tuple[str, ...]) -> None:
    found = modules_after(*args)
    assert "llamapy" in found and not found & HEAVY


@pytest.mark.parametrize("row", cli.COMMANDS, ids=lambda row: row.name)
def test_the_help_of_a_command_is_light_too(row: cli.Row) -> None:
    assert not modules_after(row.name, "--help") & (HEAVY - {"typer"})


def test_version_and_help() -> None:
    done = llamapy_cli("--version")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == f"llamapy {llamapy.__version__}\n".encode()
    done = llamapy_cli("--help")
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    assert "\x1b" not in text and all(f"  {row.name} " in text for row in cli.COMMANDS)
    for code in ["0", "1", "2", "3", "4", "5", "6", "7", "8", "130", "141"]:
        assert f"  {code} " in text


@pytest.mark.parametrize("row", cli.COMMANDS, ids=lambda row: row.name)
def test_every_command_has_help(row: cli.Row, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main([row.name, "-h"]) == 0
    out, err = capfd.readouterr()
    assert f"Usage: llamapy {row.name}" in out and "-h, --help" in out
    assert "\x1b" not in out and err == ""


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["rum"], "no such command: rum; did you mean 'run'?"),
        (["-m", "x"], "a command comes first, got -m"),
        (["pull", "--jsn"], "no such option: --jsn; did you mean '--json'?"),
        (["run", "--temp", "warm"], "Invalid value for '--temp'"),
        (["run", "-ngx", "1"], "no such option: -ngx; did you mean '-ngl'?"),
        (["run", "-n"], "-n needs a value"),
        (["pull", "demo", "more"], "more"),
    ],
)
def test_usage_errors_are_one_line(
    args: list[str], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(args) == 2
    out, err = capfd.readouterr()
    assert out == "" and says in err
    assert err.startswith("llamapy: error: ") and err.count("\n") == 1


def test_errors_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    import json

    assert cli.main(["pull", "nothing", "--json"]) == 2
    out, err = capfd.readouterr()
    error = json.loads(err)["error"]
    assert out == "" and error["code"] == 2 and error["kind"] == "UsageError"


@pytest.mark.parametrize(
    ("name", "value"),
    [("LLAMAPY_ISA", "sse9"), ("LLAMAPY_VERIFY", "maybe"), ("LLAMAPY_REPACK", "yes")],
)
def test_a_bad_environment_is_a_usage_error(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    assert cli.main(["pull", "--list"]) == 2
    assert f"{name}={value}" in capfd.readouterr().err


@pytest.mark.parametrize("error", [LlamapyError, FileError])
def test_an_error_of_ours_has_its_exit_code(
    error: type[LlamapyError], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(row: cli.Row, args: list[str]) -> int:
        raise error("a\nb")

    monkeypatch.setattr(cli, "_call", fail)
    assert cli.main(["run"]) == error.exit_code
    assert capfd.readouterr().err == "llamapy: error: a b\n"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(row: cli.Row, args: list[str]) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "_call", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["run"])


@pytest.mark.skipif(os.name != "posix", reason="closing descriptors by the shell")
@pytest.mark.parametrize("close", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(close: str) -> None:
    line = f"{sys.executable} -m llamapy --help {close}"
    done = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr and b"Exception" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_said() -> None:
    line = f"{sys.executable} -m llamapy --help > /dev/full"
    done = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr.startswith(b"llamapy: error: cannot write to stdout: ")
    assert done.stderr.count(b"\n") == 1


def test_a_broken_pipe_ends_quietly_with_141() -> None:
    code = (
        "import sys; from llamapy.cli import main\n"
        "main.help_text = lambda: 'x' * 1000000\n"
        "sys.argv[1:] = ['--help']; main.entry()"
    )
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=out, stderr=subprocess.PIPE, timeout=60, cwd=ROOT
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_interrupted_computation_counts_as_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Aborted(LlamapyError):
        exit_code = 130

    def fail(row: cli.Row, args: list[str]) -> int:
        raise Aborted("broken off")

    monkeypatch.setattr(cli, "_call", fail)
    with pytest.raises(KeyboardInterrupt):
        cli.main(["run"])
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_kills_by_its_signal() -> None:
    code = (
        "from llamapy.cli import main\n"
        "def stop(*a): raise KeyboardInterrupt\n"
        "main._dispatch = stop; main.entry()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, cwd=ROOT)
    assert (done.returncode, done.stderr) == (-2, b"llamapy: interrupted\n")


def test_an_interrupt_while_python_starts_prints_nothing() -> None:
    code = (
        "import os, signal, llamapy.base.errors as first\n"
        "import llamapy.__main__\n"
        "assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL\n"
        "from llamapy.cli import main\n"
        "main.main = lambda: print(signal.getsignal(signal.SIGINT)) or 0\n"
        "llamapy.__main__.entry()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, b"") and b"default_int_handler" in done.stdout


def test_commands_import_nothing_heavy_at_module_level() -> None:
    """The guard above sees what is imported; this names the line."""
    light = {"base", "cli"}
    for path in (ROOT / "llamapy" / "cli").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                parts = name.split(".")
                assert parts[0] not in HEAVY - {"typer"}, f"{path.name}:{node.lineno}"
                if parts[0] == "llamapy" and len(parts) > 1:
                    ok = parts[1] in light or name.startswith(("llamapy.app", "llamapy.loader"))
                    assert ok, f"{path.name}:{node.lineno}"


@pytest.mark.parametrize(("given", "left"), [(None, "1"), ("3", "3")])
def test_numpy_starts_no_threads_unless_asked_to(given: str | None, left: str) -> None:
    code = (
        "import atexit, os, sys; from llamapy.cli.main import entry; sys.argv[1:] = ['--version'];"
        "atexit.register(lambda: print(os.environ['OPENBLAS_NUM_THREADS'])); entry()"
    )
    env = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    if given is not None:
        env["OPENBLAS_NUM_THREADS"] = given
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.splitlines()[1:] == [left]
