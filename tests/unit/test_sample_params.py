"""Parameters: llama-cli's defaults, spellings, and values that mean nothing."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

from llamapy.base.errors import UsageError
from llamapy.sample.params import (
    SamplerParams,
    parse_logit_bias,
    parse_sampler_seq,
    parse_samplers,
    recommended,
)


def test_defaults_are_llama_clis() -> None:
    p = SamplerParams()
    chain = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
    assert ";".join(p.samplers) == chain
    assert (p.seed, p.temp, p.dynatemp_range, p.dynatemp_exp) == (0xFFFFFFFF, 0.8, 0, 1)
    assert (p.top_k, p.top_p, p.min_p, p.typical, p.top_n_sigma) == (40, 0.95, 0.05, 1, -1)
    assert (p.xtc_probability, p.xtc_threshold) == (0, 0.1)
    assert (p.repeat_last_n, p.repeat_penalty) == (64, 1)
    assert (p.presence_penalty, p.frequency_penalty) == (0, 0)
    assert (p.dry_multiplier, p.dry_base, p.dry_allowed_length) == (0, 1.75, 2)
    assert (p.dry_penalty_last_n, p.dry_sequence_breakers) == (64, ("\n", ":", '"', "*"))
    assert (p.mirostat, p.mirostat_lr, p.mirostat_ent) == (0, 0.1, 5)
    assert (p.ignore_eos, p.logit_bias, p.min_keep) == (False, (), 0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"temp": math.nan}, "--temp nan: must be a finite number"),
        ({"temp": math.inf}, "--temp inf"),
        ({"top_p": -0.1}, "--top-p -0.1: must be a finite number, 0 or more"),
        ({"min_p": 1.5}, "--min-p 1.5: must be a number up to 1"),
        ({"xtc_probability": 1.1}, "--xtc-probability 1.1: must be between 0 and 1"),
        ({"repeat_last_n": -1}, "--repeat-last-n -1"),
        ({"repeat_penalty": 0.0}, "--repeat-penalty 0: must be above 0"),
        ({"repeat_penalty": -2.0}, "--repeat-penalty -2"),
        ({"dry_penalty_last_n": -1}, "--dry-penalty-last-n -1"),
        ({"mirostat": 3}, "--mirostat 3: must be between 0 and 2"),
        ({"mirostat": 1, "mirostat_lr": 0.0}, "--mirostat-lr 0"),
        ({"seed": -1}, "--seed -1: must be between 0 and 18446744073709551615"),
        ({"samplers": ("top_k", "topp")}, "unknown 'topp'; did you mean 'top_p'"),
        ({"logit_bias": ((3, math.inf),)}, "--logit-bias 3"),
        ({"logit_bias": ((-3, 1.0),)}, "--logit-bias -3"),
    ],
)
def test_values_that_mean_nothing_name_flag_and_range(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as e:
        SamplerParams(**wrong)
    assert words in str(e.value)
    assert "\n" not in str(e.value)


def test_values_that_switch_off_are_fine() -> None:
    SamplerParams(temp=-1, top_k=-5, top_p=2, min_p=-1, typical=3, xtc_threshold=1, min_keep=3)


def test_spellings_of_a_chain() -> None:
    assert parse_samplers("top-k;nucleus; temp;typical") == (
        "top_k",
        "top_p",
        "temperature",
        "typ_p",
    )
    assert parse_samplers("") == ()
    assert parse_sampler_seq("edskypmxt") == SamplerParams().samplers
    with pytest.raises(UsageError, match="unknown 'tpo_k'; did you mean 'top_k'"):
        parse_samplers("tpo_k")
    with pytest.raises(UsageError, match="unknown 'z'"):
        parse_sampler_seq("kz")


def test_logit_bias_spellings() -> None:
    assert parse_logit_bias("15043+1") == (15043, 1.0)
    assert parse_logit_bias("5-0.5") == (5, -0.5)
    assert parse_logit_bias("5-inf") == (5, -math.inf)
    for text in ("5", "x+1", "5+", "-5+1", "5+x"):
        with pytest.raises(UsageError, match="ID"):
            parse_logit_bias(text)


def test_what_a_file_recommends() -> None:
    keys = {
        "general.sampling.temp": 0.6,
        "general.sampling.top_k": 20,
        "general.sampling.sequence": "top_k;temperature",
        "general.sampling.penalty_repeat": 1.05,
        "general.sampling.mirostat_tau": 4,
        "general.name": "x",
    }
    assert recommended(keys) == {
        "temp": 0.6,
        "top_k": 20,
        "samplers": ("top_k", "temperature"),
        "repeat_penalty": 1.05,
        "mirostat_ent": 4.0,
    }


def test_parameters_alone_need_no_numpy() -> None:
    code = "import sys, llamapy.sample; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
