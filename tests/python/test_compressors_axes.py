"""Compressors average over mapped axes, and refuse gradients that JAX has summed over an axis already."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eight_devices import DEVICES, mesh, sharded
from jax.sharding import PartitionSpec as P

from jaxina import compressors
from jaxina.errors import InvalidArgumentError

SHAPE = (8, 6)
INPUTS = np.random.default_rng(0).normal(size=(DEVICES, *SHAPE)).astype(np.float32)
PARAMS = {"weights": jnp.ones(SHAPE), "unused": jnp.ones(3)}
EXPECTED = INPUTS.mean(axis=0)

KINDS = ["none", "int8", "powersgd:2", "topk:0.5"]  # sums, a maximum before sums, two rounds of sums, gathers


def gradients(params: Any, x: jax.Array) -> Any:
    """Returns one worker's gradients, which are x itself and zeros."""
    return jax.grad(lambda p: (p["weights"] * x.reshape(SHAPE)).sum())(params)


def mean_of(spec: str, found: Any, axis: Any) -> Any:
    compressor = compressors.get(spec)
    mean, _ = compressor.update(found, compressor.init(PARAMS, jax.random.key(0)), axis)
    return mean["weights"][None]


def replicated(spec: str, axis: Any = "w") -> Any:
    return lambda params, x: mean_of(spec, gradients(params, x), axis)


def varying(spec: str, axis: Any = "w", cast: Any = "w") -> Any:
    return lambda params, x: mean_of(spec, gradients(jax.lax.pcast(params, cast, to="varying"), x), axis)


@pytest.mark.parametrize("spec", KINDS)
def test_gradients_that_jax_has_summed_are_refused(spec):
    program = sharded(replicated(spec), ins=(P(), P("w")), outs=P("w"))
    with pytest.raises(InvalidArgumentError, match=r"'unused'.*'w'.*jax\.lax\.pcast.*check_vma=False"):
        jax.jit(program)(PARAMS, INPUTS)


@pytest.mark.parametrize("cast, missing", [("a", "'b'"), ("b", "'a'")])
def test_gradients_must_vary_over_each_axis(cast, missing):
    both = {"on": mesh(4, 2, names=("a", "b")), "ins": (P(), P(("a", "b"))), "outs": P(("a", "b"))}
    with pytest.raises(InvalidArgumentError, match=f"axis {missing}"):
        jax.jit(sharded(varying("none", ("a", "b"), cast), **both))(PARAMS, INPUTS)
    means = jax.jit(sharded(varying("none", ("a", "b"), ("a", "b")), **both))(PARAMS, INPUTS)
    np.testing.assert_allclose(means, np.stack([EXPECTED] * DEVICES), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec", KINDS)
def test_each_way_to_have_one_s_own_gradients_gives_the_mean(spec):
    """The reference is workers simulated by vmap, which `test_compressors_worked.py` compares with results by hand."""
    specs = {"ins": (P(), P("w")), "outs": P("w")}
    simulated = jax.jit(jax.vmap(replicated(spec), in_axes=(None, 0), axis_name="w"))(PARAMS, INPUTS)[:, 0]
    ways = {
        "pcast": jax.jit(sharded(varying(spec), **specs)),
        "check_vma=False": jax.jit(sharded(replicated(spec), **specs, vma=False)),
        "pmap": jax.pmap(replicated(spec), in_axes=(None, 0), axis_name="w"),
    }
    for way, program in ways.items():
        means = np.asarray(program(PARAMS, INPUTS)).reshape(DEVICES, *SHAPE)
        np.testing.assert_allclose(means, simulated, rtol=1e-5, atol=1e-5, err_msg=way)
    if spec == "none":
        np.testing.assert_allclose(simulated, np.stack([EXPECTED] * DEVICES), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec", [*KINDS, "qsgd:64", "dgc:0.5"])
def test_the_mean_is_replicated_for_jax_s_types(spec):
    """So `out_specs` may be `P()`, which JAX refuses for arrays that may differ between devices."""
    specs = {"ins": (P(), P("w"))}
    everywhere = jax.jit(sharded(varying(spec), **specs, outs=P("w")))(PARAMS, INPUTS)
    replicated_mean = jax.jit(sharded(varying(spec), **specs, outs=P()))(PARAMS, INPUTS)
    np.testing.assert_array_equal(everywhere, np.tile(replicated_mean, (DEVICES, 1, 1)))
