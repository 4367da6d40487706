"""Command lines as processes, many of them quickly: a process that has imported everything forks
for each, sets its descriptors as asked and calls the console script's function.

A request is a line of JSON: {"args", "fds": {"0": "null" | "closed" | "full" | "gone" | PATH},
"after": seconds until SIGINT, "signal": another one's name, "most_bytes": of any file}; the answer
{"rc": as subprocess has it, "seconds"}.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import time
from typing import Any

MODULES = (
    "numpy", "tokenizers", "typer", "llamapy.api", "llamapy.app.result", "llamapy.app.identity",
    "llamapy.app.sampling", "llamapy.app.embed", "llamapy.app.logits", "llamapy.app.tokenize",
    "llamapy.app.batch.job", "llamapy.app.batch.out", "llamapy.app.bench.run",
    "llamapy.app.bench.report", "llamapy.app.bench.compare", "llamapy.app.evaluate.base",
    "llamapy.app.evaluate.choice", "llamapy.app.evaluate.divergence", "llamapy.app.evaluate.score",
    "llamapy.ffi.lib", "llamapy.app.archs",
)  # fmt: skip


def _open(fd: int, what: str) -> None:
    if what == "closed":
        os.close(fd)
        return
    if what == "gone":  # a pipe that nobody reads
        reader, new = os.pipe()
        os.close(reader)
    else:
        path = {"null": "/dev/null", "full": "/dev/full"}.get(what, what)
        mode = (
            os.O_RDONLY
            if fd == 0
            else os.O_WRONLY | (0 if what in ("null", "full") else os.O_CREAT)
        )
        new = os.open(path, mode, 0o600)
    os.dup2(new, fd)
    if new != fd:
        os.close(new)


def _stream(fd: int, mode: str) -> Any:
    """As Python opens it when it starts."""
    try:
        os.fstat(fd)
    except OSError:
        return None
    return open(fd, mode, closefd=False, errors="backslashreplace" if fd == 2 else None)


def _child(request: dict[str, Any], ready: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for fd, what in request["fds"].items():
        _open(int(fd), what)
    if "most_bytes" in request:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["most_bytes"], resource.RLIM_INFINITY))
    sys.stdin, sys.stdout, sys.stderr = _stream(0, "r"), _stream(1, "w"), _stream(2, "w")
    sys.argv = ["llamapy", *request["args"]]
    from llamapy.cli.main import entry

    code = 1
    os.close(ready)
    try:
        entry()
    except SystemExit as e:
        code = int(e.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError) as e:
            os.write(2, f"Exception ignored: {e}\n".encode())
            code = 120
    return code


def _run(request: dict[str, Any]) -> dict[str, Any]:
    start = time.monotonic()
    waits, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(waits)
        os._exit(_child(request, ready))
    os.close(ready)
    os.read(waits, 1)  # nothing: the child closes its end when it is about to begin
    os.close(waits)
    if "after" in request:
        time.sleep(request["after"])
        os.kill(pid, getattr(signal, request.get("signal", "SIGINT")))
    rc = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"rc": rc, "seconds": time.monotonic() - start}


def main() -> None:
    for name in MODULES:
        importlib.import_module(name)
    from llamapy.cli.main import COMMANDS
    from llamapy.ffi.lib import load

    load()
    for row in COMMANDS:
        importlib.import_module(row.module)
    print("ready", flush=True)
    for line in sys.stdin.buffer:
        print(json.dumps(_run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
