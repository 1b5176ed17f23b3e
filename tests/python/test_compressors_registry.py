"""Spec strings, and the page docs/compressors.md, which is written from the promises."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest
from compressor_cases import SPECS

from jaxina import compressors
from jaxina.compressors import table
from jaxina.compressors.qsgd import QSGD
from jaxina.compressors.sparse import TopK
from jaxina.errors import InvalidArgumentError


def test_arguments_by_position_name_and_switch():
    assert compressors.get("topk:0.1") == TopK(ratio=0.1)
    assert compressors.get("qsgd:256:bucket=128") == QSGD(levels=256, bucket=128)
    assert compressors.get("qsgd:256:128") == QSGD(levels=256, bucket=128)
    assert compressors.get("int8:stochastic:block=64").stochastic
    assert compressors.get("topk").error_feedback
    assert not compressors.get("topk-ef").error_feedback
    assert compressors.get("natural+ef").error_feedback


@pytest.mark.parametrize("spec", [*SPECS, "bf16+ef", "topk:0.1-ef", "blockfp:16:stochastic:paper", "int16:stochastic"])
def test_spec_of_describes_the_compressor(spec):
    compressor = compressors.get(spec)
    assert compressors.get(compressors.spec_of(compressor)) == compressor


def test_shortest_spec():
    assert compressors.spec_of(compressors.get("blockfp:32:block=256")) == "int32"
    assert compressors.spec_of(compressors.get("blockfp:16:block=256")) == "blockfp:bits=16"
    assert compressors.spec_of(compressors.get("topk:ratio=0.01")) == "topk"


@pytest.mark.parametrize(
    "spec, why",
    [
        (None, "is a string such as 'topk:0.01', not None"),
        ("topj", "no compressor 'topj'.*did you mean topk"),
        ("topK", "did you mean topk"),
        ("int4", "did you mean int8"),
        ("topk:many", "'many'.* is not of type float, as ratio is; topk takes ratio=0.01"),
        ("int8:stochastik", "did you mean stochastic.*; int8 takes block=256, stochastic, seed=0"),
        ("natural:3", "natural takes no parameters"),
        ("none+ef", "no error feedback: it loses nothing"),
        ("topk:0.1:0.2", "one too many"),
        ("topk:k=3", "not a parameter of topk"),
        ("topk:0.1:ratio=0.2", "one too many"),
        ("topk:0", "ratio must be above 0"),
        ("int8:bits=4", "not a parameter of int8"),
        ("blockfp:33", "bits must be"),
        ("qsgd:0", "levels and bucket"),
        ("qsgd:4:bucket=512+ef", "too few for error feedback"),
        ("terngrad+ef", "no error feedback: it would not converge"),
        ("terngrad:-1", "clip must not be negative"),
        ("terngrad:nan", "clip must be a number, not nan"),
        ("terngrad:inf", "clip must .* finite"),  # times a standard deviation of 0 it is NaN
        ("threshold:inf", "tau must be above 0 and finite"),
        ("dgc-ef", "not defined without its memory"),
        ("dgc:0.1:momentum=1", "momentum must be"),
        ("threshold:0", "tau must be above 0"),
        ("powersgd:0", "rank must be"),
        ("thc:block=100", "power of two"),
        ("thc:4:grid=31", "grid even"),
    ],
)
def test_wrong_specs_say_what_is_wrong(spec, why):
    with pytest.raises(InvalidArgumentError, match=why):
        compressors.get(spec)


def test_measure_takes_a_spec_as_all_reduce_mean_does():
    gradients = [np.ones(8, np.float32)] * 2
    traffic, _ = compressors.measure("none", gradients, jax.random.key(0))
    assert traffic == compressors.Traffic(sent=32, received=32)
    with pytest.raises(InvalidArgumentError, match="not None"):
        compressors.measure(None, gradients, jax.random.key(0))
    with pytest.raises(InvalidArgumentError, match="at least one worker"):
        compressors.measure("none", [], jax.random.key(0))


@pytest.mark.parametrize("axis", ["workers", ("workers", "others")])
def test_an_update_outside_of_the_workers_axis_says_where_it_belongs(axis):
    compressor = compressors.get("topk")
    gradient = np.ones(8, np.float32)
    state = compressor.init(gradient, jax.random.key(0))
    with pytest.raises(
        InvalidArgumentError, match=r"update\(\) was called where no axis .*workers.* inside jax.shard_map"
    ):
        compressor.update(gradient, state, axis)


def test_too_few_bits_for_the_workers():
    with pytest.raises(InvalidArgumentError, match="4 bits leave nothing for each of 8 workers"):
        compressors.get("blockfp:4").limit(8)


def test_no_axis_is_no_single_worker():
    compressor = compressors.get("none")
    with pytest.raises(InvalidArgumentError, match="an empty tuple: None is a single worker"):
        compressor.update(np.ones(8, np.float32), compressor.init(np.ones(8), jax.random.key(0)), ())


def cell(default: float) -> type[TopK]:
    """Makes a class as the cell of a notebook does each time that it runs: a new one of the same name."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Mine(TopK):
        ratio: float = default

    return Mine


def test_registering_a_compressor_of_ones_own():
    mine = cell(0.25)
    with pytest.raises(InvalidArgumentError, match="register"):
        compressors.spec_of(mine())
    compressors.register("mine-for-this-test", mine)
    assert compressors.get("mine-for-this-test:0.5") == mine(ratio=0.5)
    assert compressors.spec_of(mine(ratio=0.5)) == "mine-for-this-test:ratio=0.5"


def test_registering_a_class_again_replaces_it():
    compressors.register("mine-of-a-cell", cell(0.25))
    again = cell(0.75)
    compressors.register("mine-of-a-cell", again)
    assert compressors.get("mine-of-a-cell") == again(ratio=0.75)
    assert compressors.names().count("mine-of-a-cell") == 1


def test_registering_another_class_under_the_same_name_is_refused():
    class Mine(TopK):
        pass

    compressors.register("mine-and-not-yours", cell(0.25))
    with pytest.raises(InvalidArgumentError, match=r"name 'mine-and-not-yours', .*cell.*Mine.*: choose another"):
        compressors.register("mine-and-not-yours", Mine)
    with pytest.raises(InvalidArgumentError, match="one of jaxina's own"):
        compressors.register("topk", TopK, ratio=0.5)
    assert compressors.get("topk") == TopK(ratio=0.01)


@pytest.mark.parametrize(
    "name, kind, preset, why",
    [
        ("", TopK, {}, "a spec cannot begin with it"),
        ("a:b", TopK, {}, "a spec cannot begin with it"),
        (" mine", TopK, {}, "a spec cannot begin with it"),
        ("mine+ef", TopK, {}, "a spec cannot begin with it"),
        ("mine-too", TopK(), {}, "is not a subclass of Compressor"),
        ("mine-too", dict, {}, "is not a subclass of Compressor"),
        ("mine-too", TopK, {"rate": 0.5}, "has no parameter rate"),
        ("mine-too", TopK, {"ef": False}, "has no parameter ef"),
    ],
)
def test_registering_what_no_spec_could_make_is_refused(name, kind, preset, why):
    with pytest.raises(InvalidArgumentError, match=why):
        compressors.register(name, kind, **preset)
    assert name not in compressors.names()


def test_a_value_that_no_spec_can_say_has_no_spec():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Labelled(TopK):
        label: str = "-"
        fast: bool = True

    compressors.register("labelled", Labelled)
    assert compressors.spec_of(Labelled(label="a")) == "labelled:label=a"
    for made in (Labelled(label="a:b"), Labelled(fast=False)):
        with pytest.raises(InvalidArgumentError, match="no spec string makes this"):
            compressors.spec_of(made)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "compressors.md"


@pytest.mark.nightly
def test_the_page_is_current():
    assert PAGE.read_text() == table.document(), "run: python -m jaxina.compressors.table > docs/compressors.md"


def test_the_page_has_every_row_and_its_words_and_some_rows_are_current():
    """Counting bytes compiles a program for each row. So this test counts for some rows, the nightly test for all."""
    counted = ("none", "int8", "topk:0.01", "powersgd:4")
    page = PAGE.read_text()
    assert set(table.document(counted).splitlines()) <= set(page.splitlines())
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")] == list(table.ROWS)
