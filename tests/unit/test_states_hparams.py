"""What files say of layers that carry states, and what no model can have."""

from __future__ import annotations

import pytest
from keys_file import opened

from llamapy.base.errors import FileError
from llamapy.models.registry import find, shape_of

SSM = {
    "ssm.conv_kernel": ("u32", 4),
    "ssm.inner_size": ("u32", 128),
    "ssm.state_size": ("u32", 16),
    "ssm.time_step_rank": ("u32", 4),
    "ssm.group_count": ("u32", 2),
}
NO_HEADS = {
    "attention.head_count": ("u32", 0),
    "attention.head_count_kv": None,
    "feed_forward_length": ("u32", 0),
}


def shape(tmp_path, arch, **keys):
    made = find(arch, "x")
    hp = shape_of(made, opened(tmp_path, arch, **keys))
    return hp, made.states(hp), made.cache(hp)


def test_a_model_without_heads_carries_states_in_every_layer(tmp_path):
    for arch, state in (("mamba", (16, 1, 128)), ("mamba2", (16, 32, 4))):
        hp, states, cache = shape(tmp_path, arch, **SSM, **NO_HEADS)
        assert [s["ssm"] for s in states] == [state, state]
        assert (hp.n_embd_head_k, cache.n_head_kv) == (0, (0, 0))


def test_heads_that_mean_nothing_are_no_heads(tmp_path):
    hp, states, cache = shape(tmp_path, "mamba2", **SSM)
    assert (hp.n_head, cache.n_head_kv) == ((0, 0), (0, 0))
    assert all(states)


@pytest.mark.parametrize("arch", ["jamba", "granitehybrid", "plamo2", "nemotron_h"])
def test_layers_without_heads_of_k_carry_states(tmp_path, arch):
    """With heads of q counted once for all layers, as converters write them."""
    more = {"attention.head_count_kv": ("u32", [0, 2])}
    if arch == "nemotron_h":
        more["feed_forward_length"] = ("u32", [0, 0])
    _, states, cache = shape(tmp_path, arch, **SSM, **more)
    assert [bool(s) for s in states] == [True, False]
    assert cache.n_head_kv == (0, 2)


def test_a_layer_with_width_is_a_feed_forward_alone(tmp_path):
    more = {"feed_forward_length": ("u32", [96, 0])}
    _, states, cache = shape(tmp_path, "nemotron_h", **SSM, **more)
    assert (list(states), cache.n_head_kv) == ([{}, {}], (0, 2))


def test_attention_beside_a_state_space(tmp_path):
    _, states, cache = shape(tmp_path, "falcon-h1", **SSM)
    assert all(states) and cache.n_head_kv == (2, 2)


def test_all_attention_of_lfm2_has_its_window(tmp_path):
    keys = {"attention.head_count_kv": ("u32", [0, 2]), "shortconv.l_cache": ("u32", 3)}
    hp, states, _ = shape(tmp_path, "lfm2", **keys)
    assert (states, hp.is_swa) == ([{"conv": (2, 64)}, {}], (False, False))
    hp, *_ = shape(tmp_path, "lfm2", **keys, **{"attention.sliding_window": ("u32", 20)})
    assert (hp.n_swa, hp.is_swa) == (20, (False, True))


@pytest.mark.parametrize("arch", ["granite", "granitehybrid"])
def test_granite_may_be_without_rope(tmp_path, arch):
    for turns in (True, False):
        key = {"rope.scaling.finetuned": ("bool", turns)}
        hp, *_ = shape(tmp_path, arch, **SSM, **key)
        assert hp.turns == (turns, turns)


@pytest.mark.parametrize(
    "arch, key, value",
    [
        ("mamba", "ssm.conv_kernel", ("u32", 1)),
        ("mamba", "ssm.state_size", ("u32", 0)),
        ("mamba", "ssm.time_step_rank", None),
        ("mamba2", "ssm.group_count", None),
        ("mamba2", "ssm.group_count", ("u32", 0)),
        ("mamba2", "ssm.group_count", ("u32", 3)),
        ("mamba2", "ssm.inner_size", ("u32", 130)),
        ("plamo2", "ssm.inner_size", ("u32", 130)),
        ("lfm2", "shortconv.l_cache", ("u32", 1)),
        ("jamba", "ssm.inner_size", ("i32", -128)),
    ],
    ids=str,
)
def test_what_no_state_can_be_names_its_key(tmp_path, arch, key, value):
    with pytest.raises(FileError, match=f"{arch}.{key.replace('.', '[.]')}"):
        shape(tmp_path, arch, **{**SSM, key: value})
