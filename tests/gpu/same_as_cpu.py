"""Compares what compressors and sums of 64-bit types give on GPUs with what the same processes give on CPUs.

JAX_PLATFORMS=cpu jaxina run -n 2 tests/gpu/same_as_cpu.py --write FILE.npz
jaxina run -n 2 tests/gpu/as_other_host.py tests/gpu/same_as_cpu.py --compare FILE.npz   # two processes on one GPU

Compressors also gather and take maxima. XLA gives these to NCCL, which is why the processes must be other hosts to it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from psum_on_gpu import over, placed, summing

import jaxina
from jaxina import compressors

STEPS = 3
# Their bits are equal by design: jaxina's kernels make their words, or XLA's arithmetic is integers, comparisons,
# and products and differences that are exact or rounded once. No float is added in an order that XLA chooses.
EXACT = ("int8:stochastic", "int8", "int16+ef", "signsgd", "natural", "topk:0.1", "randomk:0.1")
# The largest difference, as a share of the largest number. XLA adds in another order on a GPU: 4,096 magnitudes for
# EF-signSGD's scale (an error of some 2^-22), and for PowerSGD matrix products, whose errors the QR decomposition
# multiplies. They are compared after one step: in a later one, a memory that differs may turn a sign.
CLOSE = {"efsignsgd": 1e-5, "powersgd:2": 1e-4}


def compressed_means(mesh: jax.sharding.Mesh) -> dict[str, np.ndarray]:
    """Returns the mean of each step by each compressor."""
    means = {}
    gradients = np.random.default_rng(21).standard_normal((mesh.size, STEPS, 64, 64)).astype(np.float32)
    for spec in (*EXACT, *CLOSE):
        compressor = compressors.get(spec)
        steps = 1 if spec in CLOSE else STEPS

        def averaged(own: jax.Array, compressor: compressors.Compressor = compressor, steps: int = steps) -> jax.Array:
            state = compressor.init(own[0], jax.random.key(0))
            found = []
            for step in range(steps):
                mean, state = compressor.update(own[step], state, "w")
                found.append(mean)
            return jnp.stack(found)

        means[spec] = np.asarray(over(mesh, averaged, check_vma=False)(placed(gradients, mesh)))
    return means


def sums_of_64_bits(mesh: jax.sharding.Mesh) -> dict[str, np.ndarray]:
    """Returns psums of types of 64 bits, and of pairs of them, whose numbers are of many magnitudes."""
    rng = np.random.default_rng(22)
    shape = (mesh.size, 10_007)
    floats = rng.standard_normal((2, *shape)) * np.exp2(rng.integers(-30, 30, (2, *shape)))
    integers = rng.integers(-(2**63), 2**63 - 1, shape)
    given = {
        "float64": floats[0],
        "float64, NaN and Inf": np.where(rng.random(shape) < 0.01, rng.choice((np.nan, np.inf), shape), floats[1]),
        "complex128": floats[0] + 1j * floats[1],
        "int64": integers,
        "uint64": integers.astype(np.uint64),
    }
    with jax.enable_x64(True):
        psum = summing(mesh)
        return {name: np.asarray(psum(placed(rows, mesh))) for name, rows in given.items()}


def differences(got: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> list[str]:
    """Says what is not as on the CPUs."""
    if got.keys() != expected.keys():
        return [f"{', '.join(sorted(got.keys() ^ expected.keys()))}: on one side only"]
    found = []
    for name, here in got.items():
        there = expected[name]
        if here.shape != there.shape or here.dtype != there.dtype:
            found.append(f"{name}: {here.dtype}{here.shape}, not {there.dtype}{there.shape}")
        elif name in CLOSE:
            most = np.abs(here - there).max() / np.abs(there).max()
            if not most <= CLOSE[name]:
                found.append(f"{name}: off by {most:.1e} of the largest, more than {CLOSE[name]:.0e}")
        elif here.tobytes() != there.tobytes():
            found.append(f"{name}: {np.count_nonzero(here != there)} of {here.size} differ")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, metavar="FILE.npz", help="on CPUs: write the results")
    what.add_argument("--compare", type=Path, metavar="FILE.npz", help="on GPUs: compare with these results")
    options = parser.parse_args()
    jax.config.update("jax_default_matmul_precision", "float32")  # a GPU would round to TF32, 10 bits
    with jaxina.init(strict=True):
        wanted = "cpu" if options.write else "gpu"
        if jax.default_backend() != wanted:
            raise SystemExit(f"this is to run on a {wanted.upper()}, but JAX sees {jax.devices()}")
        mesh = jax.make_mesh((jax.device_count(),), ("w",))
        results = compressed_means(mesh) | sums_of_64_bits(mesh)
        if jax.process_index() != 0:
            return
        if options.write:
            np.savez(options.write, **results)
            return
        with np.load(options.compare) as expected:
            wrong = differences(results, expected)
        if wrong:
            raise SystemExit("not as on CPUs: " + "; ".join(wrong))
        print(f"{len(results)} results are as on CPUs, {len(results) - len(CLOSE)} of them bit for bit")


if __name__ == "__main__":
    main()
