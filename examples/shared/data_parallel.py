"""Data parallelism over one mesh axis, "data": batches split over the devices, and values replicated on all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from shared.digits import Digits


def mesh_for(batch_size: int, digits: int) -> Mesh:
    """Returns a mesh of all devices of all processes, with the single axis "data".

    Raises:
      SystemExit: the batch cannot be split equally over the devices, or is larger than the `digits` images there are.
    """
    devices = jax.device_count()
    if batch_size % devices or batch_size > digits:
        raise SystemExit(f"--batch-size {batch_size} must be a multiple of the {devices} devices and at most {digits}")
    return jax.make_mesh((devices,), ("data",))


def shard(digits: Digits, mesh: Mesh) -> tuple[jax.Array, jax.Array]:
    """Returns the images and labels as global arrays. Each device holds an equal share of the rows."""
    sharding = NamedSharding(mesh, P("data"))

    def place(rows: np.ndarray) -> jax.Array:
        return jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[index])

    return place(digits.images), place(digits.labels)


def make_count_correct(logits_of: Callable[[Any, jax.Array], jax.Array], mesh: Mesh) -> Callable[[Any, Digits], int]:
    """Returns a function (variables, digits) -> the number of digits that are classified correctly.

    `logits_of` takes the variables and images, float32 [n, 28, 28, 1], and returns logits, float32 [n, 10].
    """

    def count_share(variables: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        predicted = logits_of(variables, images).argmax(-1)
        return jax.lax.psum((predicted == labels).sum(), "data")

    count = jax.jit(jax.shard_map(count_share, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=P()))

    def count_correct(variables: Any, digits: Digits) -> int:
        # Padding rows make the devices' shares equal. Their label is -1, so none counts as correct.
        missing = -len(digits) % mesh.size
        padded = Digits(
            np.pad(digits.images, ((0, missing), (0, 0), (0, 0), (0, 0))),
            np.pad(digits.labels, (0, missing), constant_values=-1),
        )
        return int(count(variables, *shard(padded, mesh)))

    return count_correct


def replicated_hash(values: Any, mesh: Mesh) -> str:
    """Returns the SHA-256 over all leaves of a replicated pytree: path, dtype, shape and bytes of each.

    Every device's copy is hashed, and the hashes are compared.

    Raises:
      RuntimeError: the devices hold different values. Every process raises it.
    """
    digests = []
    for device in jax.local_devices():
        digest = hashlib.sha256()
        for path, leaf in jax.tree_util.tree_leaves_with_path(values):
            (copy,) = [s.data for s in leaf.addressable_shards if s.device == device]
            value = np.asarray(copy)
            digest.update(f"{jax.tree_util.keystr(path)} {value.dtype} {value.shape}".encode())
            digest.update(value.tobytes())
        digests.append(np.frombuffer(digest.digest(), np.uint8))
    mine = jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), np.stack(digests).astype(np.int32))
    gather = jax.jit(jax.shard_map(_rows_of_all, mesh=mesh, in_specs=P("data"), out_specs=P()))
    everywhere = np.asarray(gather(mine)).astype(np.uint8)
    if (everywhere != everywhere[0]).any():
        hashes = ", ".join(bytes(row).hex()[:12] for row in everywhere)
        raise RuntimeError(f"the devices ended with different values; their hashes: {hashes}")
    return bytes(everywhere[0]).hex()


def _rows_of_all(row: jax.Array) -> jax.Array:
    """Gathers every device's row [1, k] into [devices, k] on all. It uses a sum, which every --collective has."""
    rows = jnp.zeros((jax.lax.axis_size("data"), row.shape[1]), row.dtype)
    return jax.lax.psum(rows.at[jax.lax.axis_index("data")].set(row[0]), "data")
