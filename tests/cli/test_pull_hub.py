"""hf: against a server of our own on this machine, in a process of its own (HF_ENDPOINT is read
when the library is imported)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("huggingface_hub", reason="the hf extra is not installed")

BODY = {
    "m-Q8_0.gguf": b"GGUF" + b"8" * 5000,
    "m-Q4_K_M.gguf": b"GGUF" + b"4" * 3000,
    "README.md": b"hello",
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """As much of the Hub as a download needs. `lie` makes every checksum wrong."""

    seen: list[str] = []
    lie = False

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        path = self.path.partition("?")[0]
        self.seen.append(f"{self.command} {path}")
        if path.startswith("/api/models/user/repo"):
            return self.send(json.dumps(self.info()).encode(), {}, body)
        name = path.rpartition("/")[2]
        if not path.startswith("/user/repo/resolve/") or name not in BODY:
            self.send_error(404)
            return None
        sha = hashlib.sha256(BODY[name]).hexdigest()
        return self.send(BODY[name], {"ETag": f'"{sha}"', "X-Repo-Commit": COMMIT}, body)

    def info(self) -> dict[str, object]:
        def sha(data: bytes) -> str:
            return hashlib.sha256(data + (b"lie" if self.lie else b"")).hexdigest()

        def lfs(data: bytes) -> dict[str, object]:
            return {"sha256": sha(data), "size": len(data), "pointerSize": 134}

        files = [{"rfilename": n, "size": len(d), "lfs": lfs(d)} for n, d in BODY.items()]
        return {"id": "user/repo", "modelId": "user/repo", "sha": COMMIT, "siblings": files}

    def send(self, data: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(200)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Hub, "seen", [])
    monkeypatch.setattr(Hub, "lie", False)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def pull(server: str, tmp: Path, name: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    env |= {"HF_ENDPOINT": server, "HF_HOME": str(tmp / "hf"), "LLAMAPY_CACHE": str(tmp / "cache")}
    env |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    command = [sys.executable, "-m", "llamapy", "pull", name]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_the_default_quant_is_fetched_once(server: str, tmp_path: Path) -> None:
    done = pull(server, tmp_path, "hf:user/repo")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "cache" / "models" / "hf" / "user" / "repo" / "m-Q4_K_M.gguf"
    assert done.stdout == f"{path}\n"
    assert path.read_bytes() == BODY["m-Q4_K_M.gguf"]
    Hub.seen.clear()
    assert pull(server, tmp_path, "hf:user/repo").returncode == 0
    assert not [line for line in Hub.seen if "resolve" in line]


def test_a_quant_can_be_named(server: str, tmp_path: Path) -> None:
    done = pull(server, tmp_path, "hf:user/repo:q8_0")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_bytes() == BODY["m-Q8_0.gguf"]


def test_a_wrong_sum_is_no_model(server: str, tmp_path: Path) -> None:
    Hub.lie = True
    done = pull(server, tmp_path, "hf:user/repo")
    assert done.returncode == 3 and "m-Q4_K_M.gguf: its sha256" in done.stderr
    assert not list((tmp_path / "cache").rglob("m-*.gguf"))


def test_a_repository_that_is_not_there(server: str, tmp_path: Path) -> None:
    done = pull(server, tmp_path, "hf:user/none")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("llamapy: error: cannot list user/none: ")
