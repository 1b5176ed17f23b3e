"""The cells of the conformance table: operations, types, operands and the bound on errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

import jaxina

AXES = ("a", "b")
ROWS, COLUMNS = 3, 100  # of each device
FLOATS = ("float32", "bfloat16", "float16", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
TYPES = (*FLOATS, *COMPLEX, *INTEGERS, "bool", "float8_e5m2")

# Bits of the significand, with the implied one.
PRECISION = {"float32": 24, "bfloat16": 8, "float16": 11, "float64": 53, "complex64": 24, "complex128": 53}


def _scan(x: Any) -> Any:
    return lax.scan(lambda c, _: (c + lax.psum(x, AXES), None), 0 * lax.psum(x, AXES), None, length=2)[0]


def _cond(x: Any) -> Any:
    positive = lax.psum(jnp.ones((), jnp.int32), AXES) > 0
    return lax.cond(positive, lambda v: lax.psum(v, AXES), lambda v: lax.psum(v + v, AXES), x)


def _while(x: Any) -> Any:
    def step(state: Any) -> Any:
        return state[0] + 1, lax.psum(x, AXES) + 0 * state[1]

    return lax.while_loop(lambda state: state[0] < 2, step, (0, lax.psum(x, AXES)))[1]


def _gradient(x: Any) -> Any:
    """The gradient of a replicated parameter. With vma, JAX inserts the all-reduce. Without it, the program must."""
    return jax.grad(lambda w: jnp.sum(w * x))(jnp.ones(x.shape[1:], x.dtype))


def _groups(x: Any) -> Any:
    size = lax.axis_size(AXES)
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    return lax.psum(x, AXES, axis_index_groups=halves)


BOTH, ON, OFF = (True, False), (True,), (False,)

# Name -> (function of one device's operand, out_specs, types, values of check_vma).
OPERATIONS: dict[str, tuple[Callable[[Any], Any], Any, Iterable[str], tuple[bool, ...]]] = {
    "psum": (lambda x: lax.psum(x, AXES), P(), TYPES, BOTH),
    "psum (axes swapped)": (lambda x: lax.psum(x, AXES[::-1]), P(), TYPES, BOTH),
    "psum over a": (lambda x: lax.psum(x, "a"), P("b"), TYPES, BOTH),
    "psum over b": (lambda x: lax.psum(x, "b"), P("a"), TYPES, BOTH),
    "groups": (_groups, P(AXES), TYPES, OFF),
    "pmean": (lambda x: lax.pmean(x, AXES), P(), (*FLOATS, *COMPLEX), BOTH),
    "scalar": (lambda x: lax.psum(x[0, 0], AXES), P(), TYPES, BOTH),
    "vmap": (jax.vmap(lambda x: lax.psum(x, AXES)), P(), TYPES, BOTH),
    "scan": (_scan, P(), (*FLOATS, *INTEGERS), BOTH),
    "while": (_while, P(), (*FLOATS, *COMPLEX, *INTEGERS), BOTH),
    "cond": (_cond, P(), (*FLOATS, *COMPLEX, *INTEGERS), BOTH),
    "gradient": (_gradient, P(), FLOATS, ON),
    "psum of gradient": (lambda x: lax.psum(_gradient(x), AXES), P(), FLOATS, OFF),
}
RANDOM = ("psum", "pmean")  # also run with random operands: they are linear, so the bound below holds


def operand(dtype: str, devices: int, random: bool) -> np.ndarray:
    """Returns the operand of all devices, [devices * ROWS, COLUMNS]. It is the same in every process."""
    rng = np.random.default_rng([devices, random])
    shape = (devices * ROWS, COLUMNS)
    if random:
        x = rng.standard_normal(shape) * 2.0 ** rng.uniform(-6, 6, shape)
        y = rng.standard_normal(shape)
    else:
        x, y = rng.integers(0, 4, shape), rng.integers(0, 4, shape)
        if dtype == "bool":
            x = x % 2
        elif dtype not in INTEGERS[4:]:
            x = x - 2
    if dtype in COMPLEX:
        x = x + 1j * y
    return x.astype(jnp.dtype(dtype))


def bound(x: np.ndarray, devices: int) -> np.ndarray:
    """Returns an elementwise bound on |jaxina's sum - XLA's sum| over n devices.

    XLA rounds n - 1 times and jaxina once, each time by at most u sum|x|, where u is the type's unit roundoff. Block
    fixed point adds n 2^(-S-1), with S = 31 - ceil(log2 n) - m, where 2^m exceeds the block's largest element. For
    float64 the bound adds n u 2^m instead.
    """
    u = 2.0 ** -PRECISION[x.dtype.name]
    parts = np.stack([x.real, x.imag]) if np.iscomplexobj(x) else x[None]
    parts = np.abs(parts.astype(np.float64)).reshape(len(parts), devices, ROWS, COLUMNS)
    m = np.frexp(parts.max())[1]
    grid = 2.0**m * u if PRECISION[x.dtype.name] == 53 else 2.0 ** (np.ceil(np.log2(devices)) + m - 32)
    each = devices * (u * parts.sum(1) + grid)
    return np.sqrt((each**2).sum(0))  # combines the errors of the real and the imaginary part


def compare(ours: np.ndarray, native: np.ndarray, x: np.ndarray | None, devices: int, scale: float) -> str:
    """Returns one cell of the table. `x` is the random operand, or None for operands whose sums are exact."""
    if ours.dtype != native.dtype or ours.shape != native.shape:
        return f"FAIL {ours.dtype}{ours.shape} is not {native.dtype}{native.shape}"
    if x is None:
        return "=" if ours.tobytes() == native.tobytes() else "FAIL differs"
    wide = np.complex128 if np.iscomplexobj(ours) else np.float64
    share = np.max(np.abs(ours.astype(wide) - native.astype(wide)) / (bound(x, devices) * scale))
    return f"{share:.2f}" if share <= 1 else f"FAIL {share:.2f}"


def program(operation: str, mesh: jax.sharding.Mesh, vma: bool) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Returns a new jit of the operation, over a dict of operands by type."""
    f, outs, _, _ = OPERATIONS[operation]
    body = jax.shard_map(
        lambda operands: {dtype: f(x) for dtype, x in operands.items()},
        mesh=mesh,
        in_specs=P(AXES),
        out_specs=outs,
        check_vma=vma,
    )
    return jax.jit(body)


def table(mesh: jax.sharding.Mesh, vma: bool, operations: Iterable[str], types: Iterable[str]) -> dict[str, Any]:
    """Returns operation -> type -> cell. The engine's statistics must show that it summed; otherwise a cell is FAIL."""
    devices = mesh.size
    rows: dict[str, dict[str, str]] = {}
    for operation in operations:
        _, _, allowed, vmas = OPERATIONS[operation]
        wanted = [dtype for dtype in types if dtype in allowed]
        groups_of_one = devices == 2 and operation in ("psum over a", "groups")
        if vma not in vmas or not wanted or groups_of_one:
            continue
        for random in (False, True) if operation in RANDOM else (False,):
            chosen = [d for d in wanted if d in PRECISION] if random else wanted
            operands = {dtype: _placed(operand(dtype, devices, random), mesh) for dtype in chosen}
            with jaxina.collectives(False):
                native = _local(program(operation, mesh, vma)(operands))
            before = jaxina.job.current().statistics()["collectives"]
            ours = _local(program(operation, mesh, vma)(operands))
            carried = jaxina.job.current().statistics()["collectives"] > before
            cells = rows.setdefault(operation + (", random" if random else ""), {})
            for dtype in chosen:
                x = operand(dtype, devices, random) if random else None
                scale = 1 / devices if operation == "pmean" else 1.0
                cell = compare(ours[dtype], native[dtype], x, devices, scale)
                if not carried and not cell.startswith("FAIL"):
                    cell = "FAIL not carried"
                cells[dtype] = "xla" if cell == "=" and dtype == "float8_e5m2" else cell
    return rows


def _placed(x: np.ndarray, mesh: jax.sharding.Mesh) -> jax.Array:
    sharding = jax.sharding.NamedSharding(mesh, P(AXES))
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])


def _local(results: dict[str, jax.Array]) -> dict[str, np.ndarray]:
    """Returns the parts of each result that this process's devices hold."""
    return {
        dtype: np.stack([np.asarray(shard.data) for shard in result.addressable_shards])
        for dtype, result in results.items()
    }
