"""Every vocabulary of the reference that a kind we have can read: the ids llama.cpp gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llamapy.base.errors import FileError
from llamapy.loader.gguf import GGUF
from llamapy.tokenize import Tokenizer, load

ROOT = Path(__file__).resolve().parents[2]
VOCAB = Path(os.environ.get("LLAMAPY_REFERENCE", ROOT.parent / "shared" / "reference")) / "vocab"
SEPARATOR = "\n__ggml_vocab_test__\n"
NAMES = [
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
]

pytestmark = pytest.mark.skipif(
    not VOCAB.is_dir(), reason=f"no vocabularies at {VOCAB}: set LLAMAPY_REFERENCE"
)


def opened(name: str, **how: object) -> Tokenizer:
    with GGUF.open(VOCAB / f"ggml-vocab-{name}.gguf") as gguf:
        return load(gguf, **how)  # type: ignore[arg-type]


def texts(name: str) -> list[str]:
    path = VOCAB / f"ggml-vocab-{name}.gguf.inp"
    return path.read_bytes().decode().split(SEPARATOR)


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_llama_cpps(name: str) -> None:
    tokenizer = opened(name)
    lines = (VOCAB / f"ggml-vocab-{name}.gguf.out").read_text().split("\n")
    inputs = texts(name)
    assert len(inputs) >= 46
    for text, line in zip(inputs, lines, strict=False):
        wanted = [int(word) for word in line.split()]
        assert tokenizer.encode(text, add_special=False) == wanted, text
        assert tokenizer.decode(wanted).decode() == text


ENDS = {
    "llama-spm": ["</s>"],
    "phi-3": ["<|endoftext|>", "<|end|>"],
    "llama-bpe": ["<|end_of_text|>", "<|eot_id|>"],
    "qwen2": ["<|endoftext|>", "<|im_end|>"],
    "command-r": ["<|END_OF_TURN_TOKEN|>"],
    "gemma-4": ["<eos>", "<turn|>"],
}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_a_generation(name: str) -> None:
    tokenizer = opened(name)
    assert [tokenizer.piece(i, True).decode() for i in sorted(tokenizer.eog)] == ENDS[name]
    assert all(tokenizer.piece(i) == b"" for i in tokenizer.eog)


@pytest.mark.parametrize("name", ["llama-spm", "llama-bpe", "gpt-2", "gemma-4"])
def test_special_text_in_plain_text_stays_text(name: str) -> None:
    tokenizer = opened(name)
    controls = [i for i in range(tokenizer.n_vocab) if tokenizer.is_control(i)]
    text = " ".join(tokenizer.piece(i, True).decode() for i in controls)
    assert not set(controls) & set(tokenizer.encode(text, add_special=False))
    assert set(controls) <= set(tokenizer.encode(text, add_special=False, parse_special=True))


def test_word_pieces_are_llama_cpps() -> None:
    """Their text does not come back: case, accents and spaces are lost."""
    tokenizer = opened("bert-bge")
    lines = (VOCAB / "ggml-vocab-bert-bge.gguf.out").read_text().split("\n")
    for text, line in zip(texts("bert-bge"), lines, strict=False):
        ids = [int(word) for word in line.split()]
        assert tokenizer.encode(text, add_special=False) == ids, text
        assert tokenizer.encode(text) == [101, *ids, 102]
    assert tokenizer.decode(tokenizer.encode("Hello, wörld")) == b" hello , world"


@pytest.mark.parametrize("name", ["aquila", "gpt-neox"])
def test_no_pre_tokenizer_named(name: str) -> None:
    with pytest.raises(FileError, match="the file names none"):
        opened(name)
    tokenizer = opened(name, pre="gpt-2")
    assert tokenizer.decode(tokenizer.encode("Hello, world 123")) == b"Hello, world 123"


def test_baichuan_without_truth_comes_back() -> None:
    tokenizer = opened("baichuan")
    for text in texts("llama-spm"):
        assert tokenizer.decode(tokenizer.encode(text)).decode() == text


UNIGRAM = [
    ("Hello  world", "35378 8999"),
    ("\uff21\uff22\uff23 \ufdfa \u304c e\u0301 \xbd", "47457 16509 1423 4472 8756 6 281 393 78660"),
    ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "10 83151 83151 83151 83151 83151 83151"),
    (
        " \U0001f680 (normal) \U0001f636\u200d\U0001f32b\ufe0f \u2705",
        "6 247206 15 33176 16 6 247442 6 3 15755 6 142325",
    ),
    (
        "\u041f\u0440\u0438\u0432\u0435\u0442, \u043a\u0430\u043a \u0434\u0435\u043b\u0430?",
        "1813 18454 4 819 7843 32",
    ),
    ("\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002", "61168 70871 29787 30"),
    ("\t\n x \u3000 y", "1022 113"),
    (" ", ""),
    ("===========================", "182906 69112 69112 69112 69112 241859"),
    ("The <mask> of </s> it", "581 250001 111 2 442"),
]


def test_unigrams_are_llama_cpps() -> None:
    """Ids that llama-tokenize gives. Letters that are alike are one: their text does not come
    back."""
    tokenizer = opened("nomic-bert-moe")
    for text, line in UNIGRAM:
        ids = [int(word) for word in line.split()]
        assert tokenizer.encode(text, add_special=False, parse_special=True) == ids, text
        assert tokenizer.encode(text, parse_special=True) == [0, *ids, 2]
    assert tokenizer.decode(tokenizer.encode("Hello  w\u00f6rld!")) == "Hello w\u00f6rld!".encode()
