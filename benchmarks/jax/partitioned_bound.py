"""Bounds how far two runs of a program may differ if only the arithmetic of their sums over devices differs.

This is a running error analysis. The program's jaxpr is evaluated in float64. Every value carries an elementwise bound
on the difference of its float32 values in the two runs:

* The difference begins at sums. The partitioner chooses which sums it splits, so any sum may be split over n devices.
  XLA then rounds n - 1 times and jaxina once, each time by at most u sum|terms|, with u = 2^-24. Block fixed point adds
  jaxina.numerics.error_bound, for the exponent of the largest sum|terms|.
* Each operation magnifies the bound as it magnifies differences: |a| eb + ea |b| + ea eb for a product.
* If an operation's operands may differ, its own rounding may differ, too, by twice its error bound in float32. That is
  2 u |result| for addition, subtraction, multiplication and division, 2 K u sum|terms| for a sum of K terms, and
  2 x 8 u |result| for XLA's tanh, exp and similar functions. If the operands are equal, the rounding is equal, because
  XLA compiles the same code in both runs.

An operation that has no rule here raises an error, unless its operands are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from jaxina import numerics

U = 2.0**-24
FUNCTION_ULPS = 8
# Operations that copy elements or take the largest one. They are applied to the bounds in the same way.
MOVES = frozenset((
    "reshape", "transpose", "broadcast_in_dim", "slice", "dynamic_slice", "dynamic_update_slice", "concatenate",
    "squeeze", "rev", "pad", "select_n", "gather", "convert_element_type", "copy", "max", "reduce_max",
))  # fmt: skip
# Operations that add many terms, and the operands in which they are linear.
SUMS = {"reduce_sum": (0,), "dot_general": (0, 1), "conv_general_dilated": (0, 1), "scatter-add": (0, 2)}
SIGNS = frozenset(("neg", "abs"))
COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
MONOTONE: dict[str, Callable[[Any], Any]] = {
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
Bind = Callable[..., list[np.ndarray]]


def bounds(function: Callable[..., Any], inputs: tuple[Any, ...], devices: int) -> list[np.ndarray]:
    """Returns the bound of each leaf of the results. JAX must have 64-bit types enabled."""
    wide = jax.tree.map(lambda x: x.astype(np.float64) if x.dtype == np.float32 else x, inputs)
    jaxpr = jax.make_jaxpr(function)(*wide)
    operands = [(np.asarray(leaf), np.zeros(np.shape(leaf))) for leaf in jax.tree.leaves(wide)]
    return [error for _, error in _evaluate(jaxpr.jaxpr, jaxpr.consts, operands, devices)]


Pair = tuple[np.ndarray, np.ndarray]  # a value and its bound


def _evaluate(jaxpr: Any, constants: Any, operands: list[Pair], n: int) -> list[Pair]:
    known: dict[Any, Pair] = {}

    def read(atom: Any) -> Pair:
        if isinstance(atom, core.Literal):
            return np.asarray(atom.val), np.zeros(np.shape(atom.val))
        return known[atom]

    known.update(zip(jaxpr.invars, operands, strict=True))
    known.update(
        (var, (np.asarray(c), np.zeros(np.shape(c)))) for var, c in zip(jaxpr.constvars, constants, strict=True)
    )
    for equation in _needed(jaxpr):
        results = _apply(equation, [read(atom) for atom in equation.invars], n)
        known.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _needed(jaxpr: Any) -> list[Any]:
    """Returns the jaxpr's equations without unused ones. Differentiation leaves these behind, and XLA removes them."""
    wanted, equations = set(map(id, jaxpr.outvars)), []
    for equation in reversed(jaxpr.eqns):
        if not wanted.isdisjoint(map(id, equation.outvars)):
            wanted.update(map(id, equation.invars))
            equations.append(equation)
    return equations[::-1]


def _apply(equation: Any, operands: list[Pair], n: int) -> list[Pair]:
    name, parameters = equation.primitive.name, equation.params
    if name in ("sharding_constraint", "stop_gradient"):
        return operands
    if name == "scan":
        return _scan(equation, operands, n)
    inner = parameters.get("jaxpr", parameters.get("call_jaxpr"))
    if inner is not None:
        closed = inner if isinstance(inner, core.ClosedJaxpr) else core.ClosedJaxpr(inner, ())
        return _evaluate(closed.jaxpr, closed.consts, operands, n)

    def bind(*values: Any) -> list[np.ndarray]:
        found = equation.primitive.bind(*values, **parameters)
        return [np.asarray(one) for one in (found if equation.primitive.multiple_results else [found])]

    values = [value for value, _ in operands]
    results = bind(*values)
    if np.issubdtype(results[0].dtype, np.floating):
        return list(zip(results, [_bound(name, parameters, bind, operands, results[0], n)], strict=True))
    if name in COMPARISONS:
        (a, ea), (b, eb) = operands
        certain = (np.abs(a - b) > ea + eb).all() or not (ea.any() or eb.any())
    else:
        certain = name == "is_finite" or not any(error.any() for _, error in operands)
    if not certain:
        raise NotImplementedError(f"{name} of values that may differ")
    return [(result, np.zeros(result.shape)) for result in results]


def _scan(equation: Any, operands: list[Pair], n: int) -> list[Pair]:
    closed, reverse = equation.params["jaxpr"], equation.params["reverse"]
    # The operands are the constants, then the carried values, then those with one part for each turn. Parameters would
    # say how many there are of each, but their names differ between versions of JAX. So shapes tell them apart.
    carried = _alike(equation.outvars, closed.jaxpr.outvars)
    constants = _alike(equation.invars, closed.jaxpr.invars) - carried
    fixed, state, inputs = operands[:constants], operands[constants:][:carried], operands[constants + carried :]
    turns = range(equation.params["length"])
    collected: list[list[Pair]] = []
    for turn in reversed(turns) if reverse else turns:
        now = [(value[turn], error[turn]) for value, error in inputs]
        results = _evaluate(closed.jaxpr, closed.consts, [*fixed, *state, *now], n)
        state = results[:carried]
        collected.append(results[carried:])
    if reverse:
        collected.reverse()
    stacked = [(np.stack([v for v, _ in one]), np.stack([e for _, e in one])) for one in zip(*collected, strict=True)]
    return [*state, *stacked]


def _alike(outer: Any, inner: Any) -> int:
    return sum(one.aval.shape == other.aval.shape for one, other in zip(outer, inner, strict=True))


def _bound(
    name: str, parameters: dict[str, Any], bind: Bind, operands: list[Pair], result: np.ndarray, n: int
) -> np.ndarray:
    if name in SUMS:
        return _of_sum(bind, operands, SUMS[name], n)
    errors = [error for _, error in operands]
    if name == "gather":  # The partitioner may sum a row of one device with zeros from the other devices.
        return bind(errors[0], operands[1][0])[0] + _fixed_point(operands[0][0], n) + U * np.abs(result)
    if not any(error.any() for error in errors):
        return np.zeros(result.shape)
    if name in MOVES:
        return bind(*(e if np.issubdtype(v.dtype, np.floating) else v for v, e in operands))[0]
    magnified = _magnified(name, parameters.get("y", 0), operands, result)
    if name in SIGNS:
        return magnified
    rounding = FUNCTION_ULPS * U if name in MONOTONE else U
    return magnified + 2 * rounding * (np.abs(result) + magnified)


def _magnified(name: str, power: int, operands: list[Pair], result: np.ndarray) -> np.ndarray:
    (a, ea), (b, eb) = operands[0], operands[-1]
    if name in ("add", "sub", "add_any"):
        return ea + eb
    if name in SIGNS:
        return ea
    if name == "mul":
        return np.abs(a) * eb + ea * np.abs(b) + ea * eb
    if name == "square":
        return 2 * np.abs(a) * ea + ea * ea
    if name == "one_minus_square":  # tanh's derivative in newer JAX. It rounds twice: the square and the difference.
        return 2 * np.abs(a) * ea + ea * ea + 2 * U * a * a
    if name == "integer_pow":
        extreme = np.abs(a) + ea if power > 0 else _away_from_zero(a, ea)
        return np.abs(extreme ** float(power) - np.abs(result))
    if name == "div":
        return (ea + np.abs(result) * eb) / _away_from_zero(b, eb)
    if name in MONOTONE:
        function = MONOTONE[name]
        return np.maximum(np.abs(function(a + ea) - result), np.abs(result - function(a - ea)))
    raise NotImplementedError(f"{name} of values that may differ")


def _away_from_zero(value: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Returns the smallest magnitude that a divisor may have."""
    least = np.abs(value) - error
    if (least <= 0).any():
        raise ValueError("a divisor may be zero: the program has no bound")
    return least


def _of_sum(bind: Bind, operands: list[Pair], linear_in: tuple[int, ...], n: int) -> np.ndarray:
    """Returns the bound of a sum. `linear_in` are the operands that are added or multiplied; others are indices."""

    def total(*chosen: np.ndarray) -> np.ndarray:
        values: list[np.ndarray] = [value for value, _ in operands]
        for place, one in zip(linear_in, chosen, strict=True):
            values[place] = one
        return bind(*values)[0]

    sizes = [np.abs(operands[place][0]) for place in linear_in]
    errors = [operands[place][1] for place in linear_in]
    largest = total(*(size + error for size, error in zip(sizes, errors, strict=True)))
    cut = n * U * largest + _fixed_point(largest, n)
    if not any(error.any() for error in errors):
        return cut
    terms = total(*map(np.ones_like, sizes)).max()
    return largest - total(*sizes) + cut + 2 * terms * U * largest


def _fixed_point(magnitudes: np.ndarray, n: int) -> np.ndarray:
    """Returns what rounding to words adds to a sum whose terms are at most `magnitudes`."""
    largest = np.abs(magnitudes).max()
    exponent = np.clip(np.frexp(largest)[1] + 126, 0, 254)
    return numerics.error_bound(exponent, n) if largest else np.zeros(())


def share(ours: np.ndarray, theirs: np.ndarray, bound: np.ndarray) -> float:
    """Returns the largest difference in units of its bound.

    It is infinite if elements differ whose bound is zero, or if an element is NaN.
    """
    difference = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(difference == 0, 0, difference / bound)
    return float(np.nan_to_num(shares, nan=np.inf, posinf=np.inf).max(initial=0))
