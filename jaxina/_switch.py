"""What decides, while a program is traced or lowered, whether and how its sums are carried.

JAX's trace and compilation caches have these values in their keys, so programs with and without jaxina never get mixed up.
`jaxina.init` and `jaxina.shutdown` set `carrying` for the process; `jaxina.collectives` for a thread's scope.
"""

from __future__ import annotations

import jax

carrying = jax.make_user_context(False)

# How many bits a float of at most 32 bits has on the wire.
BITS = (32, 64)
bits = jax.make_user_context(BITS[0])

# Psums that nothing but their order chains are merged up to this many bytes. A collective has a fixed cost of some 0.3 ms
# and sums on the order of 1 GB/s on a CPU, so 4 MiB make the fixed cost small against the sum, and larger gradients still
# leave while the backward pass computes the next ones.
BUCKET_BYTES = 4 << 20
bucket_bytes = jax.make_user_context(BUCKET_BYTES)
