"""Readable reference of block fixed point. Every codec, kernel and transport must reproduce it bit for bit.

* `jaxina.numerics.reference`, `jaxina.numerics.sums` and `jaxina.numerics.random_numbers`: the specification in NumPy.
  Their functions are exported here.
* `jaxina.numerics.jnp_reference`: the same in jax.numpy, for use inside `jax.jit`.
* `jaxina.numerics.paper_scale`: the scale of the SwitchML paper, for comparison in studies.

Source: Sapio et al., Scaling Distributed Machine Learning with In-Network Aggregation, NSDI 2021, section 4.6 and
appendix E, with a power of two as the scale.

Example:
  Two workers sum three numbers. The 0.1 of each worker shares a block with a 1000, so each worker rounds it to a
  multiple of 2^-20, and the sum is off by less than `error_bound`:

  >>> import numpy as np
  >>> from jaxina import numerics
  >>> arrays = [np.array([1000, 0.1, 0.5], np.float32)] * 2
  >>> total = numerics.all_reduce_reference(arrays)
  >>> print(total)
  [2.0000000e+03 2.0000076e-01 1.0000000e+00]
  >>> exponents = numerics.block_exponents(arrays[0])
  >>> bool(abs(total[1] - 2 * float(arrays[0][1])) <= numerics.error_bound(exponents, workers=2)[0])
  True
"""

from jaxina._native import MAX_WORKERS
from jaxina.config import DEFAULT_BLOCK_SIZE
from jaxina.numerics.blocks import NON_FINITE_EXPONENT, quantized_limit
from jaxina.numerics.random_numbers import random64, random_words
from jaxina.numerics.reference import block_exponents, dequantize, quantize, round_shift, scale_exponent
from jaxina.numerics.sums import all_reduce_reference, error_bound, non_finite_sum

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
    "random64",
    "random_words",
    "round_shift",
    "scale_exponent",
]
