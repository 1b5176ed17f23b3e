"""What `update` cannot average is refused, where broadcasting or a conversion would give a wrong mean silently."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import get

from jaxina.errors import InvalidArgumentError


@pytest.mark.parametrize("spec", ["topk:0.5", "dgc:0.5", "efsignsgd", "powersgd:1"])
@pytest.mark.parametrize("workers", [1, 8])
def test_the_state_of_all_workers_is_refused(spec, workers):
    """It would be added to each worker's gradient by broadcasting."""
    compressor, x = get(spec), jnp.ones((6, 5))
    state = compressor.init({"a": jnp.ones((workers, *x.shape))}, jax.random.key(0))
    with pytest.raises(InvalidArgumentError, match=rf"a gradient of shape \(6, 5\) has .*\[{workers}.*worker's part"):
        compressor.update({"a": x}, state)


def test_the_state_of_another_compressor_is_refused():
    state = get("topk-ef").init(jnp.ones(2), jax.random.key(0))
    with pytest.raises(InvalidArgumentError, match=r"has the arrays none, but this compressor's has memory\[2\]"):
        get("topk").update(jnp.ones(2), state)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "complex64"])
def test_gradients_that_are_not_of_floating_point_are_refused(dtype):
    """Else the mean of 3 and 4 is 3, and a complex number loses its imaginary part."""
    compressor, gradient = get("none"), {"a": jnp.ones(2), "b": [jnp.ones(2, dtype)]}
    with pytest.raises(InvalidArgumentError, match=rf"the gradient\['b'\]\[0\] is {dtype}"):
        compressor.update(gradient, compressor.init(gradient, jax.random.key(0)))


def test_leaves_may_be_python_s_and_numpy_s_numbers():
    compressor, gradient = get("topk:1.0"), {"a": 0.5, "b": np.float64(2), "c": np.ones(2, np.float16), "none": None}
    mean, _ = compressor.update(gradient, compressor.init(gradient, jax.random.key(0)))
    assert (float(mean["a"]), float(mean["b"]), mean["c"].dtype, mean["none"]) == (0.5, 2, np.float16, None)
