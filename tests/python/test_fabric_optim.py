"""Steps for gradients of different ages."""

from __future__ import annotations

import doctest

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxina.fabric.optim
from jaxina.errors import InvalidArgumentError
from jaxina.fabric.optim import scale_by_ada_delay


def test_the_example_prints_what_it_says():
    assert doctest.testmod(jaxina.fabric.optim).failed == 0


def test_the_step_is_the_paper_s():
    transformation = scale_by_ada_delay(2.0, 0.5)
    gradients = {"w": jnp.array([4.0, -1.0]), "b": jnp.array(1.0, jnp.bfloat16)}
    state = transformation.init(gradients)
    for t, delay in enumerate([0, 3, 29], 1):
        steps, state = transformation.update(gradients, state, delay=delay)
        step = 1 / (2.0 + 0.5 * np.sqrt(t + delay))
        np.testing.assert_allclose(steps["w"], step * gradients["w"], rtol=1e-6)
        assert steps["b"].dtype == jnp.bfloat16
    assert state.updates == 3


def test_the_delay_must_be_given():
    optimizer = optax.chain(scale_by_ada_delay(1.0, 1.0), optax.scale(-1.0))
    with pytest.raises(InvalidArgumentError, match="needs each update's delay"):
        optimizer.update(jnp.ones(1), optimizer.init(jnp.ones(1)))


def distance_after(transformation, delays) -> float:
    """The distance from the optimum of |w|^2 / 2 after delayed, noisy gradients."""
    noise = np.random.default_rng(0)
    update = jax.jit(lambda gradient, state, delay: transformation.update(gradient, state, delay=delay))
    versions = [np.full(4, 3.0, np.float32)]
    state = transformation.init(versions[0])
    for t, delay in enumerate(delays):
        gradient = versions[max(0, t - delay)] + noise.normal(0, 0.1, 4).astype(np.float32)
        step, state = update(gradient, state, delay)
        versions.append(versions[-1] - np.asarray(step))
    return float(np.linalg.norm(versions[-1]))


def test_delays_that_break_a_constant_step_do_not_break_this_one():
    delays = np.random.default_rng(1).integers(0, 40, 1500)
    constant = optax.with_extra_args_support(optax.scale(0.2))
    assert distance_after(scale_by_ada_delay(1.0, 2.0), delays) < 0.2
    assert distance_after(constant, delays) > 10


def test_bad_numbers_are_refused():
    for smoothness, growth in ((-1.0, 1.0), (float("nan"), 1.0), (1.0, 0.0), (1.0, float("nan"))):
        with pytest.raises(InvalidArgumentError, match="must be"):
            scale_by_ada_delay(smoothness, growth)
