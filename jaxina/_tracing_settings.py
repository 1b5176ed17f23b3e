"""The values that decide, while a program is traced or lowered, whether and how its sums are carried.

They are part of the keys of JAX's trace and compilation caches, so programs with and without jaxina are never mixed up.
`jaxina.init` and `jaxina.shutdown` set `carrying` and `block_size` for the process. `jaxina.collectives` sets all but
`block_size` for a scope of one thread.
"""

from __future__ import annotations

import contextlib
import dataclasses

import jax

from jaxina.config import ROUNDINGS

carrying = jax.make_user_context(False)
block_size = jax.make_user_context(0)  # of the job: how many elements share an exponent; 0 without a job

SMALLEST = 4096


@dataclasses.dataclass(frozen=True)
class Precision:
    """How floats of at most 32 bits travel. xla_ffi/precision.h has the same settings.

    Attributes:
      bits: how many bits one takes on the wire, one of jaxina.config.BITS.
      rounding: how 8 and 16 bits are rounded, one of jaxina.config.ROUNDINGS.
      smallest: arrays of fewer elements take 32 bits instead of 8 or 16.
      seed: of the random numbers of stochastic rounding, 64 bits.
    """

    bits: int = 32
    rounding: str = ROUNDINGS[0]
    smallest: int = SMALLEST
    seed: int = 0

    @property
    def numbers(self) -> list[int]:
        """What the native code takes. The seed is written as a signed number."""
        seed = self.seed - 2**64 if self.seed >= 2**63 else self.seed
        return [self.bits, self.smallest, int(self.rounding == "stochastic"), seed]


precision = jax.make_user_context(Precision())

PRECISION = "jaxina_precision"
"""Name of the attribute in which a psum bound inside `with_precision` carries its own precision."""


def with_precision(own: Precision) -> contextlib.AbstractContextManager[None]:
    """A scope inside of a traced function: psums bound in it are carried with this precision, not the program's.

    `precision` is read when a program is lowered, long after the function was traced. JAX keeps metadata with each
    equation, also where it traces or copies equations anew (scan, remat).
    """
    # Experimental, so all else of jaxina works in a JAX that lacks it.
    from jax.experimental.xla_metadata import set_xla_metadata

    scope: contextlib.AbstractContextManager[None] = set_xla_metadata(**{PRECISION: " ".join(map(str, own.numbers))})
    return scope


# Psums that depend on each other only by their order are merged, up to this many bytes. On a CPU a collective has a
# fixed cost of some 0.3 ms and sums on the order of 1 GB/s. So with 4 MiB the fixed cost is small against the sum. And
# larger gradients are still sent while the backward pass computes the next ones.
BUCKET_BYTES = 4 << 20
bucket_bytes = jax.make_user_context(BUCKET_BYTES)
