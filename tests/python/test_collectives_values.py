"""A carried psum returns the specification's sum, bit for bit, in every type that is carried."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eight_devices import DEVICES, carried, on_devices, sharded
from jax import lax

import jaxina
from jaxina.numerics import all_reduce_reference

pytestmark = pytest.mark.usefixtures("job")

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def total(rows: np.ndarray) -> np.ndarray:
    """Returns the carried psum of rows[i] on device i."""
    f = jax.jit(sharded(lambda x: lax.psum(x[0], "w")))
    result, collectives = carried(lambda: f(on_devices(rows)))
    assert collectives == DEVICES
    return np.asarray(result)


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("count", [1, 255, 256, 257, 5000])
@pytest.mark.parametrize("spread", [0, 30], ids=["even", "spread"])
def test_float32_is_the_reference_bit_for_bit(count: int, spread: int):
    rng = np.random.default_rng(count + spread)
    rows = rng.standard_normal((DEVICES, count)) * 2.0 ** rng.uniform(-spread, spread, (DEVICES, count))
    rows = rows.astype(np.float32)
    want = all_reduce_reference(list(rows))
    assert np.array_equal(total(rows).view(np.uint32), want.view(np.uint32))


def test_float32_non_finite_values_are_those_of_ieee_addition():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((DEVICES, 600)).astype(np.float32)
    rows[3, 5] = np.nan
    rows[1, 6] = np.inf
    rows[2, 7] = -np.inf
    rows[4, 8], rows[5, 8] = np.inf, -np.inf
    got = total(rows)
    want = all_reduce_reference(list(rows))
    assert np.isnan(got[5]) and got[6] == np.inf and got[7] == -np.inf and np.isnan(got[8])
    finite = np.isfinite(want)
    assert finite.sum() == 596
    assert np.array_equal(got[finite].view(np.uint32), want[finite].view(np.uint32))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_exact_and_wrap(dtype: str, x64: None):
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    rows = rng.integers(limits.min, limits.max, (DEVICES, 700), dtype=dtype, endpoint=True)
    got = total(rows)
    assert got.dtype == dtype
    assert np.array_equal(got, np.add.reduce(rows, axis=0, dtype=dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64", "complex128"])
def test_small_integers_sum_exactly_in_every_inexact_type(dtype: str, x64: None):
    rng = np.random.default_rng(2)
    rows = rng.integers(-15, 15, (DEVICES, 700)).astype(jnp.dtype(dtype))
    wide = np.float64
    if np.issubdtype(rows.dtype, np.complexfloating):
        wide = np.complex128
        rows = rows + (1j * rng.integers(-15, 15, rows.shape)).astype(dtype)
    got = total(rows)
    assert got.dtype == jnp.dtype(dtype)
    assert np.array_equal(got, rows.astype(wide).sum(0).astype(got.dtype))


@pytest.mark.parametrize("dtype, bits", [("float16", 11), ("bfloat16", 8), ("float64", 53)])
def test_narrow_and_wide_floats_are_within_rounding_of_the_block_maximum(dtype: str, bits: int, x64: None):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((DEVICES, 1000)).astype(jnp.dtype(dtype))
    exact = np.sum(rows.astype(np.longdouble), axis=0)
    error = np.abs(total(rows).astype(np.longdouble) - exact)
    # The sum is rounded once. Each worker adds at most half a unit in the last place of the largest element.
    largest = np.abs(rows.astype(np.float64)).max() * 2
    assert np.all(error <= (np.abs(exact) + DEVICES * largest) * 2.0**-bits)


def test_bool_becomes_int32_and_pytrees_keep_their_structure():
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 100, (DEVICES, 50))

    def f(x: Any) -> Any:
        row = x[0]
        return lax.psum(
            {
                "float": row.astype(jnp.float32),
                "flag": row > 50,
                "empty": row[:0].astype(jnp.float32),
                "scalar": row[0].astype(jnp.uint32),
                "constant": 3,
                "deep": [(row, None)],
            },
            "w",
        )

    got, collectives = carried(lambda: jax.jit(sharded(f))(on_devices(rows.astype(np.int32))), bucket_bytes=0)
    assert np.array_equal(got["float"], rows.sum(0))
    assert got["flag"].dtype == np.int32 and np.array_equal(got["flag"], (rows > 50).sum(0))
    assert got["empty"].shape == (0,) and got["empty"].dtype == np.float32
    assert got["scalar"] == rows[:, 0].sum()
    assert got["constant"] == 3 * DEVICES
    assert np.array_equal(got["deep"][0][0], rows.sum(0)) and got["deep"][0][1] is None
    assert collectives == 5 * DEVICES


def test_what_is_not_carried_stays_with_xla_visibly(caplog: pytest.LogCaptureFixture):
    rows = np.arange(DEVICES * 4, dtype=np.float32).reshape(DEVICES, 4) % 4

    def f(x: Any) -> Any:
        return lax.psum(x.astype(jnp.float8_e5m2), "w").astype(jnp.float32), lax.psum(x, "w")

    before = jaxina.report().stays.get("dtype float8_e5m2", 0)
    with caplog.at_level("INFO", logger="jaxina"):
        (narrow, wide), collectives = carried(lambda: jax.jit(sharded(f))(on_devices(rows)))
    assert np.array_equal(wide[0], rows.sum(0))
    assert np.array_equal(narrow[0], jax.jit(sharded(f))(on_devices(rows))[0][0])
    assert collectives == DEVICES
    assert jaxina.report().stays["dtype float8_e5m2"] == before + 1
    assert "dtype float8_e5m2" in caplog.text
