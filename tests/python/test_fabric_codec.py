"""Updates in the compressors' bytes: the server decodes what the worker says that it does, and refuses what is none."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from jaxina.errors import InvalidArgumentError
from jaxina.fabric.codec import Codec

ELEMENTS = 700
SPECS = [
    *("none", "int32", "int16", "int8", "int8:stochastic", "blockfp:12", "fp16", "bf16", "qsgd:64", "terngrad"),
    *("natural", "signsgd", "efsignsgd", "onebit", "topk:0.1", "threshold:2.5", "randomk:0.1", "dgc:0.1", "thc"),
    *("int8+ef", "topk:0.1-ef"),
]
OFTEN = ("none", "int8", "qsgd:64", "topk:0.1", "randomk:0.1", "int8+ef")  # the others take long to compile
NAME = 3 << 32 | 17


def update(seed=0):
    return np.random.default_rng(seed).normal(size=ELEMENTS).astype(np.float32)


@pytest.mark.parametrize(
    "spec", [spec if spec in OFTEN else pytest.param(spec, marks=pytest.mark.nightly) for spec in SPECS]
)
def test_the_server_decodes_what_the_worker_says(spec):
    worker, server = Codec(spec, ELEMENTS), Codec(spec, ELEMENTS)
    memory = worker.memory()
    for step in range(2):
        text, decoded, memory = worker.encode(update(step), NAME + step, memory)
        assert server.decode(text, NAME + step).tobytes() == decoded.tobytes()
        assert decoded.dtype == np.float32 and decoded.shape == (ELEMENTS,)
        if spec not in ("none", "int32"):
            assert len(text) < 4 * ELEMENTS


def test_all_compressors_but_those_with_rounds_can_be_used():
    refused = ["powersgd:4", "qgz:4", "oktopk:0.1", "bf16ring", "fp16ring"]
    tried, without = ({re.split("[:+-]", spec)[0] for spec in specs} for specs in (SPECS, refused))
    # In a process of its own, since other tests register compressors.
    names = subprocess.check_output([sys.executable, "-c", "from jaxina import compressors as c; print(*c.names())"])
    assert tried == set(names.decode().split()) - without
    for spec in refused:
        with pytest.raises(InvalidArgumentError, match="needs rounds with other workers"):
            Codec(spec, ELEMENTS)


def test_error_feedback_sends_later_what_it_could_not_send():
    codec = Codec("topk:0.1", ELEMENTS)
    memory, sent = codec.memory(), np.zeros(ELEMENTS)
    for step in range(60):
        _, decoded, memory = codec.encode(update(), NAME + step, memory)
        sent += decoded
    np.testing.assert_allclose(sent / 60, update(), atol=0.5)
    without = Codec("topk:0.1-ef", ELEMENTS)
    assert np.abs(without.encode(update(), NAME, without.memory())[1] - update()).max() > 1


def test_a_warm_up_ends():
    """It sends a quarter, then a sixteenth, and then what was asked for."""
    codec = Codec("dgc:0.02:warmup=2", ELEMENTS)
    memory, sent = codec.memory(), []
    for step in range(4):
        text, decoded, memory = codec.encode(update(step), NAME + step, memory)
        assert codec.decode(text, NAME + step).tobytes() == decoded.tobytes()
        sent.append(np.count_nonzero(decoded))
    assert sent == [ELEMENTS // 4, -(-ELEMENTS // 16), ELEMENTS // 50, ELEMENTS // 50]


@pytest.mark.parametrize("spec", ["none", "int8", "topk:0.1"])
def test_bytes_that_are_no_update_are_refused(spec):
    codec = Codec(spec, ELEMENTS)
    text, _, _ = codec.encode(update(), NAME, codec.memory())
    for wrong in (b"", text[:-3], text + b"\0\0\0\0", text[:2]):
        with pytest.raises(InvalidArgumentError):
            codec.decode(wrong, NAME)


@pytest.mark.parametrize("spec", ["none", "int8"])
def test_numbers_that_are_not_finite_are_refused(spec):
    codec = Codec(spec, ELEMENTS)
    wrong = update()
    wrong[5] = np.nan
    with pytest.raises(InvalidArgumentError, match="not finite"):
        codec.encode(wrong, NAME, codec.memory())
    with pytest.raises(InvalidArgumentError, match="not finite"):
        Codec("none", ELEMENTS).decode(wrong.tobytes(), NAME)


@pytest.mark.parametrize(
    "wrong", [np.zeros(ELEMENTS), np.zeros(ELEMENTS + 1, np.float32), np.zeros((7, 100), np.float32)]
)
def test_other_shapes_and_dtypes_are_refused(wrong):
    with pytest.raises(InvalidArgumentError, match=r"float32\[700\]"):
        Codec("none", ELEMENTS).encode(wrong, NAME, None)
