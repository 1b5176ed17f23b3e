"""Checks that stochastic rounding of narrow words has no bias: up, within a worker, down, and all together.

    python -m experiments.unbiased_rounding                    # 100,000 draws of each; writes a result
    python -m experiments.unbiased_rounding --draws 2000       # prints only

A draw is a collective: its number changes, and all numbers to round stay the same. For each of 256 numbers, the mean
over the draws must be within four standard errors of the number. Numbers above the largest word are left out: these
are clamped, which is a bias (`jaxina.numerics`).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from experiments import documents
from experiments.records import RESULTS
from jaxina import numerics
from jaxina.numerics import jnp_random, jnp_reference

RECORDED = 100_000
ALLOWED = 4.0
SEED = 2026
COUNT = 256
_AT_ONCE = 1000
FILE = RESULTS / "unbiased_rounding.json"


@dataclasses.dataclass(frozen=True)
class Check:
    """The outcome for one way of rounding.

    Attributes:
      what: what is rounded.
      numbers: how many numbers are not whole, so that chance decides how they are rounded.
      largest: the largest distance of a mean from its number, in standard errors.
      mean_square: the mean square of these distances, near 1 if the standard errors are right.
    """

    what: str
    numbers: int
    largest: float
    mean_square: float


def run(draws: int) -> list[Check]:
    """Makes all checks with that many draws, a multiple of 1000."""
    checks = []
    for bits in (8, 16):
        checks.append(_up(bits, draws))
        for n in (2, 8, 64):
            checks += [_down(bits, n, draws, where) for where in ("within", "down")]
        checks.append(_whole(bits, draws))
    return checks


def _up(bits: int, draws: int) -> Check:
    x, exponents = _numbers(bits)
    scaled = np.ldexp(x.astype(np.float64), numerics.scale_exponent(exponents, 1, bits)[0])

    def rounded(collective: jax.Array) -> jax.Array:
        seed = jnp_random.seed_up(jnp_random.random64(SEED, collective), 3)
        return jnp_reference.quantize(x, exponents, 1, COUNT, bits=bits, seed=seed)

    return _check(f"{bits} bits, up", rounded, scaled, draws)


def _down(bits: int, n: int, draws: int, where: str) -> Check:
    limit = n * numerics.quantized_limit(n, bits)
    sums = np.random.default_rng(n).integers(-limit, limit + 1, COUNT).astype(np.int32)
    shift = (n - 1).bit_length()

    def rounded(collective: jax.Array) -> jax.Array:
        own = jnp_random.random64(SEED, collective)
        seed = jnp_random.seed_down(own) if where == "down" else jnp_random.seed_within(own, 1)
        return jnp_reference.round_shift(sums, shift, jnp_random.random_words(seed, COUNT))

    return _check(f"{bits} bits, {where}, sums of {n}", rounded, sums / 2.0**shift, draws)


def _whole(bits: int, draws: int) -> Check:
    """Three workers with two devices each. The results are compared in units of the words that go up."""
    rng = np.random.default_rng(1)
    arrays = [_numbers(bits)[0] * np.float32(rng.uniform(0.5, 1)) for _ in range(6)]
    exponents = np.max([numerics.block_exponents(x, COUNT) for x in arrays], axis=0)
    unit = float(np.ldexp(1.0, -numerics.scale_exponent(exponents, 6, bits)[0]))

    def rounded(collective: jax.Array) -> jax.Array:
        y = jnp_reference.all_reduce_reference(
            arrays, COUNT, bits=bits, devices_per_worker=2, seed=SEED, collective=collective
        )
        return jnp.round(y / unit).astype(jnp.int32)

    exact = np.sum(np.asarray(arrays, np.float64), axis=0) / unit
    return _check(f"{bits} bits, a whole sum of 3 workers of 2 devices", rounded, exact, draws, one_step=False)


def _numbers(bits: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """256 normal numbers that share a block, and its exponent. None is above the largest word."""
    x = np.random.default_rng(0).standard_normal(COUNT).astype(np.float32)
    exponents = numerics.block_exponents(x, COUNT)
    largest = np.ldexp(float(numerics.quantized_limit(1, bits)), -numerics.scale_exponent(exponents, 1, bits)[0])
    assert np.abs(x).max() <= largest
    return x, exponents


def _check(
    what: str,
    rounded: Callable[[jax.Array], jax.Array],
    exact: npt.NDArray[np.float64],
    draws: int,
    one_step: bool = True,
) -> Check:
    """Compares the means of ``rounded(collective)`` over the draws with `exact`. All are in units of a word.

    With `one_step`, a number's variance is p (1 - p), where p is its fraction. Otherwise it is that of the draws.
    """

    @jax.jit
    def many(first: jax.Array) -> jax.Array:
        return jax.vmap(rounded)(first + jnp.arange(_AT_ONCE))

    total, squares = np.zeros(exact.size, np.int64), np.zeros(exact.size, np.float64)
    for first in range(0, draws, _AT_ONCE):
        words = np.asarray(many(jnp.int32(first)), np.int64)
        total += words.sum(axis=0)
        squares += ((words - exact) ** 2).sum(axis=0)
    fraction = exact - np.floor(exact)
    variance = fraction * (1 - fraction) if one_step else squares / draws
    random = variance > 0
    if not np.array_equal(total[~random], exact[~random] * draws):
        raise AssertionError(f"{what}: a whole number is not kept")
    distances = np.abs(total[random] / draws - exact[random]) / np.sqrt(variance[random] / draws)
    return Check(what, int(random.sum()), float(distances.max()), float((distances**2).mean()))


def settings() -> dict[str, Any]:
    """Returns what the recorded document is made of."""
    return {"draws": RECORDED, "seed": SEED, "numbers": COUNT}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=RECORDED)
    draws = parser.parse_args().draws
    making = documents.Making()
    checks = run(draws)
    for check in checks:
        print(f"{check.what}: {check.largest:.2f} standard errors, mean square {check.mean_square:.2f}")
    worst = max(check.largest for check in checks)
    if worst > ALLOWED:  # nothing is written: a result that is there counts as made
        raise SystemExit(f"biased: {worst:.2f} standard errors")
    if draws == RECORDED:
        document = {**settings(), "checks": [dataclasses.asdict(c) for c in checks], **making.ended()}
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
