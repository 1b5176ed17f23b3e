"""The values that decide, while a program is traced or lowered, whether and how its sums are carried.

They are part of the keys of JAX's trace and compilation caches, so programs with and without jaxina are never mixed up.
`jaxina.init` and `jaxina.shutdown` set `carrying` for the process. `jaxina.collectives` sets all of them for a scope of
one thread.
"""

from __future__ import annotations

import jax

carrying = jax.make_user_context(False)

# How many bits a float of at most 32 bits takes on the wire: the values allowed, and the one in force.
BITS = (32, 64)
bits = jax.make_user_context(BITS[0])

# Psums that depend on each other only by their order are merged, up to this many bytes. On a CPU a collective has a
# fixed cost of some 0.3 ms and sums on the order of 1 GB/s. So with 4 MiB the fixed cost is small against the sum. And
# larger gradients are still sent while the backward pass computes the next ones.
BUCKET_BYTES = 4 << 20
bucket_bytes = jax.make_user_context(BUCKET_BYTES)
