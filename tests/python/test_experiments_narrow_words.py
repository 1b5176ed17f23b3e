"""The study of narrow words: its ways to sum, its recorded figures, and that stochastic rounding has no bias."""

from __future__ import annotations

import dataclasses
import json

import jax
import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from compressor_cases import get

import experiments.adaptive_shift  # noqa: F401 (it registers its compressors)
from experiments import narrow_words, records, unbiased_rounding
from experiments.narrow_words import BITS, WAYS, WORKERS, adaptive, measure
from jaxina import compressors, numerics


def numbers(workers: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((workers, 1000)).astype(np.float32)


@pytest.mark.parametrize("workers", [1, 2, 5, 8])
@pytest.mark.parametrize("bits", [8, 16])
def test_the_adaptive_shift_is_the_least_with_which_a_block_fits(workers, bits):
    x = numbers(workers)
    x[:, :256] = x[0, :256]  # where workers agree, sums are large
    y, shifts = adaptive(x, bits)
    exponents = np.max([numerics.block_exponents(row) for row in x], axis=0)
    total = np.sum([numerics.quantize(row, exponents, workers, bits=bits) for row in x], axis=0)
    limit = numerics.quantized_limit(workers, bits)
    for block, shift in enumerate(shifts):
        part = slice(256 * block, 256 * (block + 1))
        words = numerics.round_shift(total[part], int(shift))
        assert np.abs(words).max() <= limit
        if shift:
            assert np.abs(numerics.round_shift(total[part], int(shift) - 1)).max() > limit
        one = exponents[block : block + 1]
        expected = numerics.dequantize(words, one, workers, bits=bits, shift=int(shift))
        np.testing.assert_array_equal(y[part].astype(np.float32), expected)
    if workers == 8:
        assert shifts[0] == 3 > shifts[1:].max()


@pytest.mark.parametrize("spec", ["adaptive8", "adaptive16", "adaptive8:stochastic"])
def test_the_adaptive_compressor_sums_as_the_study_does_and_counts_the_shifts(spec):
    x = numbers(8)
    x[:, :256] = x[0, :256]
    bits = get(spec).bits
    traffic, mean = compressors.measure(get(spec), list(x), jax.random.key(0))
    assert (traffic.sent, traffic.received) == (125 * bits + 4 + 1, 125 * bits + 4 + 4 + 1)
    exact = x.astype(np.float64).mean(axis=0)
    y, shifts = adaptive(x, bits)
    if "stochastic" in spec:
        assert np.abs(mean - exact).max() < 3 * np.abs(y / 8 - exact).max()
    else:
        np.testing.assert_array_equal(mean, (y / 8).astype(np.float32))
        assert len(set(shifts.tolist())) > 1


def test_errors_are_relative_to_the_exact_sum():
    """Two ones and two small numbers, which vanish: the error is that of 2e-4 in a sum of 2."""
    x = np.array([[1, 1e-4]] * 2, np.float32)
    point = measure("two", x, 8, "fixed", 2)
    assert point.rms == pytest.approx(1e-4, rel=1e-3)
    assert point.largest == pytest.approx(1e-4, rel=1e-3)
    assert point.spread == 0
    assert point.shift == 1
    x[1] *= 3
    assert measure("spread", x, 8, "fixed", 2).spread == pytest.approx(2 / 4)  # of 1 and 3: sqrt(2) each, in 4


@pytest.mark.parametrize("way", WAYS)
def test_every_way_has_smaller_errors_with_more_bits(way):
    few, many = (measure("normal", numbers(4), bits, way) for bits in (8, 16))
    assert 100 * many.rms < few.rms < 0.1
    if few.of_bound is not None:
        assert 0.2 < few.of_bound <= 1


def test_recorded_errors_are_within_the_bound_and_complete():
    document = json.loads((records.RESULTS / "narrow_words.json").read_text())
    points = [narrow_words.Point(**point) for point in document["points"]]
    sources = {p.source for p in points}
    assert len(sources) == 2 + 2 * len(narrow_words.WORKLOADS)
    cases = {(p.source, p.bits, p.workers, p.way) for p in points}
    assert len(cases) == len(points) == len(sources) * len(BITS) * len(WORKERS) * len(WAYS)
    assert all(np.isfinite([p.rms, p.largest, p.spread]).all() for p in points)
    assert 0.3 < max(p.of_bound for p in points if p.of_bound is not None) <= 1


def test_stochastic_rounding_has_no_bias():
    """The recorded run has 100,000 draws of each kind, this one 2,000."""
    document = json.loads((records.RESULTS / "unbiased_rounding.json").read_text())
    assert document["draws"] == unbiased_rounding.RECORDED == 100_000
    recorded = [unbiased_rounding.Check(**check) for check in document["checks"]]
    checks = unbiased_rounding.run(2000)
    assert [check.what for check in checks] == [check.what for check in recorded]
    for check in checks + recorded:
        assert check.numbers > 100, dataclasses.asdict(check)
        assert check.largest <= unbiased_rounding.ALLOWED, dataclasses.asdict(check)
        assert 0.5 < check.mean_square < 1.5, dataclasses.asdict(check)


def test_a_bias_is_found(monkeypatch):
    """If halves of the numbers' range were never drawn, means would be too large."""
    words = unbiased_rounding.jnp_random.random_words
    monkeypatch.setattr(unbiased_rounding.jnp_random, "random_words", lambda *a: words(*a) | 0x10000000)
    check = unbiased_rounding._down(8, 2**5, 2000, "down")
    assert check.largest > unbiased_rounding.ALLOWED


def test_the_check_of_rounding_begins_a_folder_of_results(tmp_path, monkeypatch):
    check = unbiased_rounding.Check("8 bits, up", 1, 0.5, 1.0)
    monkeypatch.setattr(unbiased_rounding, "run", lambda draws: [check])
    monkeypatch.setattr(unbiased_rounding, "FILE", tmp_path / "new/unbiased_rounding.json")
    monkeypatch.setattr("sys.argv", ["unbiased_rounding"])
    unbiased_rounding.main()
    document = json.loads((tmp_path / "new/unbiased_rounding.json").read_text())
    assert document["checks"] == [dataclasses.asdict(check)]
    assert document["draws"] == unbiased_rounding.RECORDED and document["seconds"] >= 0 and document["finished"]


def test_a_bias_is_no_result(tmp_path, monkeypatch):
    """A result that is there counts as made, so the check would not be made again."""
    check = unbiased_rounding.Check("8 bits, up", 1, 4.5, 1.0)
    monkeypatch.setattr(unbiased_rounding, "run", lambda draws: [check])
    monkeypatch.setattr(unbiased_rounding, "FILE", tmp_path / "unbiased_rounding.json")
    monkeypatch.setattr("sys.argv", ["unbiased_rounding"])
    with pytest.raises(SystemExit, match=r"biased: 4\.50"):
        unbiased_rounding.main()
    assert not list(tmp_path.iterdir())
