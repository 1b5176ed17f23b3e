"""Block fixed point, readable: what every codec, kernel and transport must reproduce bit for bit.

* `jaxina.numerics.reference`: the specification in NumPy (re-exported here).
* `jaxina.numerics.jnp_reference`: the same in jax.numpy, for use inside `jax.jit`.
* `jaxina.numerics.paper_scale`: the scale of the SwitchML paper, for comparison in studies.
"""

from jaxina.numerics.reference import (
    DEFAULT_BLOCK_SIZE,
    MAX_WORKERS,
    NON_FINITE_EXPONENT,
    all_reduce_reference,
    block_exponents,
    dequantize,
    error_bound,
    non_finite_sum,
    quantize,
    quantized_limit,
    random_words,
    scale_exponent,
)

__all__ = [
    "DEFAULT_BLOCK_SIZE",
    "MAX_WORKERS",
    "NON_FINITE_EXPONENT",
    "all_reduce_reference",
    "block_exponents",
    "dequantize",
    "error_bound",
    "non_finite_sum",
    "quantize",
    "quantized_limit",
    "random_words",
    "scale_exponent",
]
