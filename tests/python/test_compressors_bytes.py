"""Payloads survive being packed into bytes, and the bytes are as few as promised."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compressor_cases import SPECS, context_for, encoded, get, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxina import compressors
from jaxina.compressors import SUM, packing
from jaxina.errors import InvalidArgumentError


@settings(max_examples=150)
@given(st.integers(2, 2**32), st.integers(0, 150), st.integers(0, 2**32 - 1))
def test_digits_survive_packing(base, count, seed):
    digits = np.random.default_rng(seed).integers(0, base, count, dtype=np.int64)
    digits[: count // 3] = base - 1
    data = packing.pack_digits(digits, base)
    assert len(data) == packing.packed_length(count, base)
    np.testing.assert_array_equal(packing.unpack_digits(data, count, base), digits)


@pytest.mark.parametrize(
    "base, count, length",
    [(2, 64, 8), (2, 65, 9), (3, 40, 8), (3, 1, 1), (256, 5, 5), (2**32, 3, 12), (129, 9, 8), (16, 3, 2), (1, 9, 0)],
)
def test_packed_length(base, count, length):
    assert packing.packed_length(count, base) == length


def test_known_bytes():
    fields = {"signs": packing.integers(0, 1), "words": packing.integers(-(2**15), 2**15 - 1), "x": packing.floats()}
    arrays = {"signs": np.array([1, 0, 1, 1]), "words": np.array([-(2**15), 1]), "x": np.float32([1.0])}
    assert packing.to_bytes(arrays, fields) == bytes([0b1101, 0, 0, 1, 0x80, 0, 0, 0x80, 0x3F])


def test_values_outside_the_field_are_refused():
    with pytest.raises(InvalidArgumentError, match="words: 8 "):
        packing.to_bytes({"words": np.array([8])}, {"words": packing.integers(-8, 7)})
    with pytest.raises(InvalidArgumentError, match="positions: 2 "):
        packing.to_bytes({"positions": np.array([2])}, {"positions": packing.lookup((0, 1, 3))})


def test_truncated_and_overlong_bytes_are_refused():
    fields, like = {"x": packing.floats()}, {"x": np.zeros(2, np.float32)}
    for data in (bytes(7), bytes(9)):
        with pytest.raises(InvalidArgumentError, match="bytes"):
            packing.from_bytes(data, fields, like)


@pytest.mark.parametrize("spec", SPECS)
def test_payload_survives_its_bytes(spec):
    compressor, x = get(spec), jnp.asarray(normal(20))
    context = context_for(compressor, x, jax.random.key(1), workers=3)
    payload = encoded(compressor, x, jax.random.key(1))
    back = compressor.from_bytes(compressor.to_bytes(payload, context), context)
    assert back.keys() == payload.keys()
    for name, array in payload.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)


@pytest.mark.parametrize("spec", [s for s in SPECS if get(s).kind == SUM and "powersgd" not in s])
def test_a_sum_of_extreme_payloads_survives_its_bytes(spec):
    """Three workers have the same values, so their sums are the largest that the answer's fields must hold."""
    compressor, x = get(spec), jnp.asarray(normal(21))
    context = context_for(compressor, x, jax.random.key(1), workers=3)
    payload = encoded(compressor, x, jax.random.key(1))
    total = compressor.aggregate(jax.tree.map(lambda array: 3 * array, payload), context)
    back = compressor.from_bytes(compressor.to_bytes(total, context, summed=True), context, summed=True)
    for name in total:
        np.testing.assert_array_equal(back[name], total[name])


D = 64 * 64


@pytest.mark.parametrize(
    "spec, sent",
    [
        ("none", 4 * D),
        ("int32", 4 * D + 16 + 1),  # an exponent for each of 16 blocks, and the flag
        ("int16", 2 * D + 16 + 1),
        ("int8", D + 16 + 1),
        ("int8:block=32", D + 128 + 1),
        ("bf16", 2 * D),
        ("signsgd", D // 8 + 1),
        ("efsignsgd", D // 8 + 4 + 1),
        ("onebit", D // 8 + 8 * 64 + 1),
        ("randomk:0.01", 4 * 41 + 4),  # the flag is float32, as the sum is
        ("topk:0.01", 4 * 41 + 66 + 1),  # 5 indices of 12 bits in 8 bytes, and the last in 2
        ("powersgd:4", 4 * 4 * (64 + 64) + 4),
        ("thc", D // 2 + 4 * 4 + 1),
    ],
)
def test_bytes_sent(spec, sent):
    gradients = [normal(seed, (64, 64)) for seed in (22, 23)]
    traffic, _ = compressors.measure(get(spec), gradients, jax.random.key(0))
    assert traffic.sent == sent


@pytest.mark.parametrize("spec", ["threshold:2.0", "dgc:0.01:warmup=9"])
def test_only_counted_entries_travel(spec):
    gradients = [normal(24, (64, 64)), 0.5 * normal(25, (64, 64))]
    traffic, _ = compressors.measure(get(spec), gradients, jax.random.key(0))
    first, second = ((np.abs(g) >= 2.0).sum() if "threshold" in spec else D // 4 for g in gradients)
    for count, length in ((first, traffic.sent), (second, traffic.received)):
        assert 5.5 * count <= length <= 5.7 * count + 16


def test_the_flag_of_a_nan_in_a_float_sum_is_counted():
    gradients = [normal(22, (8, 8)), np.full((8, 8), np.nan, np.float32)]
    traffic, mean = compressors.measure(get("randomk:0.1"), gradients, jax.random.key(0))
    assert np.isnan(mean).all()
    assert traffic.sent == traffic.received == 4 * 7 + 4
