"""The study of the effect of f: its sums are those of the compressor, and its errors stay within the bound."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

from compressor_cases import get, initial, normal, steps

from experiments import effect_of_f, records


@pytest.mark.parametrize("bits, block, workers", [(8, 7, 3), (8, 7, 4), (16, 32, 3)])
def test_effect_of_f_sums_as_the_compressor_does(bits, block, workers):
    x = np.stack([normal(seed).reshape(-1) for seed in range(60, 60 + workers)])
    compressor = get(f"blockfp:{bits}:{block}")
    mean, _ = steps(compressor, jnp.asarray(x), initial(compressor, jnp.asarray(x)))
    ours, _ = effect_of_f.summed(x, bits, block)
    np.testing.assert_allclose(mean[0], ours / workers, rtol=1e-6)


def test_effect_of_f_has_no_words_of_which_the_sum_takes_all_bits():
    assert np.isfinite(
        effect_of_f.summed(np.ones((effect_of_f.WORKERS, 3), np.float32), min(effect_of_f.BITS), 2)
    ).all()
    with pytest.raises(ValueError, match="4 bits leave nothing for a word of each of 8 workers"):
        effect_of_f.summed(np.ones((8, 3), np.float32), 4, 2)


def test_recorded_errors_are_within_theorem_1():
    document = json.loads((records.RESULTS / "effect_of_f.json").read_text())
    shares = [point["of_bound"] for point in document["points"]]
    assert len(shares) == len(effect_of_f.WORKLOADS) * len(effect_of_f.BITS) * len(effect_of_f.BLOCKS)
    assert 0.3 < max(shares) <= 1.0
