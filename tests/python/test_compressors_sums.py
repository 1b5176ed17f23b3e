"""Sums of payloads never wrap: what could is refused when the program is traced."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import initial, traced_steps

from jaxina import compressors
from jaxina.compressors import packing
from jaxina.errors import InvalidArgumentError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words(compressors.Compressor):
    """Sends whole numbers up to `largest` in an array of `dtype`."""

    dtype: str = "int32"
    largest: int = 127

    promise = compressors.Promise(title="words", paper="-", unbiased=False, error_feedback="off", note="-")
    kind = compressors.SUM

    def encode(self, x, state, context):
        return {"words": jnp.rint(x).astype(self.dtype)}, state

    def decode(self, payload, context):
        return payload["words"].astype(jnp.float32)

    def fields(self, context, summed):
        most = self.largest * (context.workers if summed else 1)
        return {"words": packing.integers(-most, most)}


def mean_of_hundreds(compressor: compressors.Compressor, workers: int) -> np.ndarray:
    gradients = jnp.full((workers, 3), 100.0)
    return np.asarray(traced_steps(compressor, gradients, initial(compressor, gradients))[0])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "bfloat16"])
def test_a_narrow_sum_is_refused_and_not_wrapped(dtype):
    with pytest.raises(InvalidArgumentError, match=f"'words' is {dtype}, but .* int32 or float32"):
        mean_of_hundreds(Words(dtype=dtype), 4)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_wide_sum_is_the_sum(dtype):
    np.testing.assert_array_equal(mean_of_hundreds(Words(dtype=dtype), 4), 100)


def test_a_sum_beyond_int32_is_refused():
    assert mean_of_hundreds(Words(largest=2**29 - 1), 4)[0, 0] == 100
    with pytest.raises(InvalidArgumentError, match=r"'words' from -2147483648 to 2147483648 do not fit into int32"):
        mean_of_hundreds(Words(largest=2**29), 4)


def test_an_array_without_a_field_is_refused():
    class Forgetful(Words):
        def fields(self, context, summed):
            return {}

    with pytest.raises(InvalidArgumentError, match="'words' is sent, but"):
        mean_of_hundreds(Forgetful(), 2)


def test_narrow_payloads_may_be_gathered():
    """A gathered payload is not summed before it is decoded."""

    class Gathered(Words):
        kind = compressors.GATHER

    np.testing.assert_array_equal(mean_of_hundreds(Gathered(dtype="int8"), 4), 100)
