"""Hyper-parameters: what a file may say, and what is refused because nobody would act on it."""

from __future__ import annotations

import pytest
from keys_file import opened

from llamapy.base.errors import FileError
from llamapy.loader.hparams import read_hparams, swa_pattern
from llamapy.models.registry import find, known, shape_of
from llamapy.models.unhandled import CHANGING, refuse_unhandled

ARCH = "llama"


def test_the_usual(tmp_path):
    hp = read_hparams(opened(tmp_path))
    assert (hp.n_head, hp.n_head_kv, hp.n_ff) == ((4, 4), (2, 2), (96, 96))
    assert (hp.n_embd_head_k, hp.n_embd_head_v, hp.n_rot) == (16, 16, 16)


BAD = [
    ("block_count", ("u32", 0)),
    ("block_count", ("u32", 513)),
    ("context_length", ("u64", 1 << 40)),
    ("embedding_length", ("i32", -64)),
    ("attention.head_count", ("f32", 4.0)),
    ("attention.head_count", ("bool", True)),
    ("attention.head_count", ("f32", [4.0, 4.0])),
    ("attention.head_count", ("i32", [4, -4])),
    ("attention.head_count_kv", ("u32", 3)),
    ("attention.head_count_kv", ("i32", [2, 2, 2])),
    ("attention.key_length", ("u32", 0)),
    ("attention.value_length", ("i32", -1)),
    ("attention.scale", ("f32", float("nan"))),
    ("attention.scale", ("f32", -1.0)),
    ("feed_forward_length", ("i32", [96, -1])),
    ("feed_forward_length", ("f32", 96.0)),
    ("final_logit_softcapping", ("f32", float("inf"))),
    ("attn_logit_softcapping", ("f32", float("nan"))),
    ("rope.dimension_count", ("u32", 0)),
    ("rope.dimension_count", ("u32", 15)),
    ("rope.dimension_count", ("u32", 18)),
    ("rope.freq_base", ("f32", 0.0)),
    ("rope.freq_base", ("f32", float("nan"))),
    ("rope.scaling.factor", ("f32", -2.0)),
    ("rope.scaling.factor", ("f32", float("inf"))),
    ("rope.scaling.original_context_length", ("u32", 0)),
    ("rope.scaling.type", ("text", "ntk")),
    ("vocab_size", ("u32", 0)),
]


@pytest.mark.parametrize("key, value", BAD, ids=lambda x: str(x))
def test_what_no_model_can_have_names_its_key(tmp_path, key, value):
    with pytest.raises(FileError, match=f"{ARCH}.{key.replace('.', '[.]')}"):
        read_hparams(opened(tmp_path, **{key: value}))


CHANGES = [
    ("attention.causal", ("bool", False)),
    ("attention.clamp_kqv", ("f32", 8.0)),
    ("attention.head_count", ("u32", 0)),
    ("attention.head_count_kv", ("i32", [2, 0])),
    ("attention.max_alibi_bias", ("f32", 8.0)),
    ("attention.sliding_window", ("u32", 32)),
    ("attention.temperature_scale", ("f32", 0.1)),
    ("expert_count", ("u32", 8)),
    ("logit_scale", ("f32", 0.5)),
    ("rope.dimension_sections", ("i32", [8, 4, 4, 0])),
    ("rope.scaling.type", ("text", "longrope")),
    ("rope.scaling.yarn_log_multiplier", ("f32", 0.1)),
    ("use_parallel_residual", ("bool", True)),
]


@pytest.mark.parametrize("arch", known())
@pytest.mark.parametrize("key, value", CHANGES, ids=str)
def test_a_key_that_changes_the_result_and_is_not_handled_is_an_error(tmp_path, arch, key, value):
    made = find(arch, "x")
    file = opened(tmp_path, arch, **{key: value})
    if key in made.handles:
        refuse_unhandled(file, read_hparams(file), made.handles)
        return
    with pytest.raises(FileError, match=f"key {arch}.{key}.*not supported"):
        shape_of(made, file)


NOTHING = [
    ("attention.causal", ("bool", True)),
    ("attention.clamp_kqv", ("f32", 0.0)),
    ("attention.key_length_swa", ("u32", 16)),
    ("attention.sliding_window", ("u32", 128)),  # no shorter than the context
    ("embedding_scale", ("f32", 1.0)),
    ("expert_count", ("u32", 0)),
    ("rope.dimension_sections", ("i32", [0, 0, 0, 0])),
    ("rope.scaling.type", ("text", "none")),
    ("of_no_meaning_to_us", ("u32", 7)),
]


@pytest.mark.parametrize("key, value", NOTHING, ids=str)
def test_a_key_that_says_what_its_absence_says_is_fine(tmp_path, key, value):
    shape_of(find(ARCH, "x"), opened(tmp_path, **{key: value}))


def test_what_architectures_handle_is_in_the_table():
    for arch in known():
        assert find(arch, "x").handles <= CHANGING.keys()


@pytest.mark.parametrize(
    "value, dense_first, full",
    [
        (None, False, [2, 5]),
        (("u32", 2), False, [1, 3, 5]),
        (("u32", 2), True, [0, 2, 4]),
        (("u32", 1), False, range(6)),
        (("u32", 0), False, []),
        (("bool", [True, False, True, True, True, False]), False, [1, 5]),
        (("u32", [1, 0, 1, 1, 1, 0]), False, [1, 5]),
    ],
    ids=str,
)
def test_which_layers_see_a_window(tmp_path, value, dense_first, full):
    file = opened(
        tmp_path, **{"block_count": ("u32", 6), "attention.sliding_window_pattern": value}
    )
    is_swa = swa_pattern(file, read_hparams(file), 3, dense_first=dense_first)
    assert [il for il, swa in enumerate(is_swa) if not swa] == list(full)


@pytest.mark.parametrize("value", [("i32", -1), ("bool", True), ("text", "3"), ("i32", [1, 0, 1])])
def test_a_pattern_that_is_none_is_refused(tmp_path, value):
    file = opened(tmp_path, **{"attention.sliding_window_pattern": value})
    with pytest.raises(FileError, match="sliding_window_pattern"):
        swa_pattern(file, read_hparams(file), 3)


@pytest.mark.parametrize("value", [("i32", -1), ("u32", 1 << 31)])
def test_a_window_of_no_size_is_refused(tmp_path, value):
    file = opened(tmp_path, "gemma3", **{"attention.sliding_window": value})
    with pytest.raises(FileError, match="sliding_window"):
        shape_of(find("gemma3", "x"), file)


def test_the_scale_that_a_file_gives_counts(tmp_path):
    arch = find("gemma3", "x")
    assert shape_of(arch, opened(tmp_path, "gemma3")).attention_scale == 0.25
    file = opened(tmp_path, "gemma3", **{"attention.scale": ("f32", 0.5)})
    assert shape_of(arch, file).attention_scale == 0.5
