"""Checks the bits of psums of GPU arrays, then measures how long they take, beside the time that the GPU's link needs.

jaxina run -n 2 tests/gpu/psum_on_gpu.py               # two processes that may share one GPU
jaxina run -n 2 tests/gpu/psum_on_gpu.py --only-time   # no checks
python tests/gpu/psum_on_gpu.py --several              # the GPUs of one process
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jaxina
from jaxina import _native, numerics

MEGABYTES = 100
SMALLER = (4_000, 100_000, 1_000_000, 10_000_000)  # bytes
TURNS = 10
SEED = 2**63 + 11
NOT_RUN = 4  # the exit code by which scripts/gpu_check.sh knows that nothing failed, and nothing was checked


def placed(rows: np.ndarray, mesh: jax.sharding.Mesh) -> jax.Array:
    """Returns an array with row i of `rows` on device i."""
    return jax.make_array_from_callback(rows.shape, NamedSharding(mesh, P("w")), lambda index: rows[index])


def over(mesh: jax.sharding.Mesh, body: Any, **options: Any) -> Any:
    """Compiles `body`, which takes a device's row and returns what is equal on all devices."""
    return jax.jit(jax.shard_map(lambda x: body(x[0]), mesh=mesh, in_specs=P("w"), out_specs=P(), **options))


def summing(mesh: jax.sharding.Mesh) -> Any:
    return over(mesh, lambda x: jax.lax.psum(x, "w"))


def check_same(got: np.ndarray, expected: np.ndarray, what: str) -> None:
    same = (got.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(got) & np.isnan(expected))
    assert same.all(), f"{what}: {np.count_nonzero(~same)} of {got.size} differ"


def with_special_values(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """Makes a hundredth of the elements Inf, and as many NaN. It changes `rows`, and returns it."""
    rows[rng.random(rows.shape) < 0.01] = np.inf
    rows[rng.random(rows.shape) < 0.01] = np.nan
    return rows


def check_bits(mesh: jax.sharding.Mesh) -> int:
    """Checks psums of every type, of sizes with tails, and with NaN and Inf. Returns how many sums it has compared."""
    n, compared = mesh.size, 0
    psum = summing(mesh)
    rng = np.random.default_rng(7)
    for size in (1, 255, 4097, 100_003):
        for special in (False, True):
            rows = (rng.standard_normal((n, size)) * np.exp2(rng.integers(-30, 30, (n, size)))).astype(np.float32)
            if special:
                with_special_values(rng, rows)
            got = np.asarray(psum(placed(rows, mesh)))
            check_same(got, numerics.all_reduce_reference(list(rows)), f"float32, {size} elements")
            compared += 1
        for dtype in (jnp.bfloat16, jnp.float16, jnp.complex64, jnp.int8, jnp.int16, jnp.int32, jnp.uint32):
            rows = rng.integers(-20, 20, (n, size))
            got = np.asarray(psum(placed(rows.astype(dtype), mesh)))
            assert got.dtype == dtype and (got == rows.sum(0).astype(dtype)).all(), dtype
            compared += 1
    return compared


def check_narrow_bits(mesh: jax.sharding.Mesh) -> int:
    """Checks psums with words of 8 and 16 bits, as `check_bits` does. It must come before all other sums, because the
    collective's number in the job is part of its random numbers."""
    psum = summing(mesh)
    rng = np.random.default_rng(8)
    number = 0
    for bits in (8, 16):
        for rounding in ("nearest", "stochastic"):
            for size in (4096, 100_003):
                for special in (False, True):
                    rows = rng.standard_t(2, (mesh.size, size)).astype(np.float32)
                    if special:
                        with_special_values(rng, rows)
                    with jaxina.collectives(bits=bits, rounding=rounding, seed=SEED):
                        got = np.asarray(psum(placed(rows, mesh)))
                    expected = numerics.all_reduce_reference(
                        list(rows),
                        bits=bits,
                        devices_per_worker=jax.local_device_count(),
                        seed=SEED if rounding == "stochastic" else None,
                        collective=number,
                    )
                    check_same(got, expected, f"{bits} bits, {rounding}, {size} elements")
                    number += 1
    return number


def check_wide_bits(mesh: jax.sharding.Mesh) -> int:
    """Checks psums with words of 64 bits, as `check_bits` does.

    numerics has no reference for them, so the numbers of a type lie within 40 powers of two. Then their sums are exact,
    and rounded once, to float32; those of narrow types once more.
    """
    psum = summing(mesh)
    rng = np.random.default_rng(10)
    compared = 0
    for dtype, lowest, highest in ((jnp.float32, -12, 12), (jnp.bfloat16, -18, 18), (jnp.float16, -24, 14)):
        for size in (255, 100_003):
            for special in (False, True):
                signs = rng.choice((-1, 1), (mesh.size, size))
                rows = signs * np.ldexp(rng.uniform(1, 2, signs.shape), rng.integers(lowest, highest, signs.shape))
                rows = rows.astype(dtype).astype(np.float64)  # subnormal ones of float16, too
                if special:
                    with_special_values(rng, rows)
                with np.errstate(invalid="ignore", over="ignore"):  # of Inf - Inf, and of float16
                    expected = rows.sum(axis=0).astype(np.float32).astype(dtype)
                with jaxina.collectives(bits=64):
                    got = np.asarray(psum(placed(rows.astype(dtype), mesh)))
                assert got.dtype == dtype, got.dtype
                what = f"{np.dtype(dtype)} in 64 bits, {size} elements"
                check_same(got.astype(np.float32), expected.astype(np.float32), what)
                compared += 1
    return compared


def check_overlap_of_several(mesh: jax.sharding.Mesh) -> None:
    """Checks a program in which several psums are under way at once, in a loop, beside other work."""

    def body(x: jax.Array) -> jax.Array:
        def step(carry: jax.Array, _: None) -> tuple[jax.Array, None]:
            a, b = jax.lax.psum(carry, "w"), jax.lax.psum(2 * carry, "w")
            return (a + b) / (3 * mesh.size) + 0 * jnp.tanh(carry), None

        return jax.lax.scan(step, x, length=5)[0]

    got = np.asarray(over(mesh, body, check_vma=False)(placed(np.full((mesh.size, 10_000), 3, np.float32), mesh)))
    assert (got == 3).all(), got


def check_gradients(mesh: jax.sharding.Mesh) -> None:
    """Checks a gradient that JAX itself sums over the devices: of the mean of squares by replicated parameters."""
    rng = np.random.default_rng(9)
    rows = rng.integers(-8, 8, (mesh.size, 5_000)).astype(np.float32)  # small integers, so all sums are exact
    parameters = np.arange(5_000, dtype=np.float32) % 7

    def loss(p: jax.Array, x: jax.Array) -> jax.Array:
        return jax.lax.psum(jnp.sum(p * p * x[0]), "w")

    gradient = jax.jit(jax.shard_map(jax.grad(loss), mesh=mesh, in_specs=(P(), P("w")), out_specs=P()))
    got = np.asarray(gradient(parameters, placed(rows, mesh)))
    assert (got == 2 * parameters * rows.sum(0)).all(), got


def time_psum(mesh: jax.sharding.Mesh, size: int) -> float:
    """Returns the median time of TURNS psums of so many bytes of float32, in seconds."""
    psum = summing(mesh)
    rows = np.random.default_rng(1).standard_normal(size // 4, np.float32)
    x = placed(np.broadcast_to(rows, (mesh.size, size // 4)), mesh)
    psum(x).block_until_ready()
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        psum(x).block_until_ready()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def profile(mesh: jax.sharding.Mesh, folder: str) -> None:
    """Writes JAX's profile of three psums in process 0 into `folder`."""
    psum = summing(mesh)
    x = placed(np.ones((mesh.size, MEGABYTES * 250_000), np.float32), mesh)
    psum(x).block_until_ready()
    with jax.profiler.trace(folder) if jax.process_index() == 0 else contextlib.nullcontext():
        for _ in range(3):
            psum(x).block_until_ready()


def link(mesh: jax.sharding.Mesh) -> tuple[float, float]:
    """Returns the bytes per second from and to the GPU. Process 0 measures them while the others wait; they get
    zeros."""
    barrier = summing(mesh)
    one = placed(np.ones((mesh.size, 1), np.float32), mesh)
    barrier(one).block_until_ready()
    found = _native.gpu_link(MEGABYTES * 1_000_000) if jax.process_index() == 0 else (0.0, 0.0)
    barrier(one).block_until_ready()
    return found


def staged_share(job: jaxina.Job) -> float:
    """Returns how many words the CPU has copied or added for each element summed so far.

    In the memory that processes share, the process's one GPU reads and adds all words of 32 bits itself. Words that are
    staged there mean that this memory could not be page-locked, and times would be those of a hidden copy.
    """
    counted = job.statistics()
    staged = counted["staged_words"]
    may_stage = job.aggregator != "embedded" or jax.local_device_count() > 1
    assert may_stage or staged == 0, f"{staged} words were copied through the host's memory; there should be none"
    return staged / counted["elements"]


def times_of(mesh: jax.sharding.Mesh) -> str:
    """Measures, and says in one line what came out."""
    size = MEGABYTES * 1_000_000
    to_host, to_gpu = link(mesh)
    seconds = time_psum(mesh, size)
    job = jaxina.job.current()
    assert job is not None
    staged = staged_share(job)
    smaller = [f"{each / 1000:g} KB {time_psum(mesh, each) * 1e3:.2f} ms" for each in SMALLER]
    with jaxina.collectives(bits=8):
        narrow_seconds = time_psum(mesh, size)
    if jax.process_index() != 0:
        return ""
    # The GPU's link carries the operands of all devices that share it one way, and their results the other way.
    floor = mesh.size * size / min(to_host, to_gpu)
    return (
        f"{MEGABYTES} MB over {mesh.size}: {seconds * 1e3:.1f} ms, link {to_host / 1e9:.1f} and "
        f"{to_gpu / 1e9:.1f} GB/s, floor {floor * 1e3:.1f} ms, ratio {seconds / floor:.1f}; "
        f"with 8 bits {narrow_seconds * 1e3:.1f} ms; "
        f"{staged:.2f} words staged an element; {', '.join(smaller)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--only-time", action="store_true")
    what.add_argument("--only-bits", action="store_true")
    parser.add_argument("--profile", metavar="FOLDER", help="write a profile of process 0, too")
    parser.add_argument("--several", action="store_true", help="several GPUs are required (else exit code 4)")
    options = parser.parse_args()
    with jaxina.init(strict=True):
        if jax.default_backend() != "gpu":
            raise SystemExit(f"JAX sees no GPU, but {jax.devices()}")
        if options.several and jax.local_device_count() == 1:
            print("this process has one GPU, so there is nothing to sum within it")
            raise SystemExit(NOT_RUN)
        mesh = jax.make_mesh((jax.device_count(),), ("w",))
        said = []
        if not options.only_time:
            compared = check_narrow_bits(mesh) + check_bits(mesh) + check_wide_bits(mesh)
            check_overlap_of_several(mesh)
            check_gradients(mesh)
            said.append(f"{compared} sums have the reference's bits")
        if not options.only_bits:
            said.append(times_of(mesh))
        if options.profile:
            profile(mesh, options.profile)
        if jax.process_index() == 0:
            print("; ".join(said))


if __name__ == "__main__":
    main()
