"""The state that a team trains: a pytree of arrays, as bytes and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxina.errors import InvalidArgumentError, MismatchError

PART = 1 << 20
"""The most bytes of a part in which a state travels."""


def leaves_of(state: Any) -> list[Any]:
    """The leaves of a state.

    Raises:
      InvalidArgumentError: a leaf is neither an array on this process's devices nor a Python number.
    """
    found = jax.tree_util.tree_flatten_with_path(state)[0]
    for path, leaf in found:
        is_local = isinstance(leaf, jax.Array) and leaf.is_fully_addressable
        is_host = isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex))
        if not is_local and not (is_host and np.asarray(leaf).dtype != object):
            raise InvalidArgumentError(
                f"state{jax.tree_util.keystr(path)} is a {type(leaf).__name__}: the state must consist of JAX arrays "
                "of this process, NumPy arrays and numbers. Keep what is constant outside of it"
            )
    return [leaf for _, leaf in found]


def described(state: Any) -> str:
    """A digest of the state's structure, shapes and dtypes, for members to compare."""
    # Not the structure itself: what it says of functions differs from process to process.
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(state)[0]]
    layout = layout_of(state)[1]
    text = repr([(path, shape, str(dtype)) for path, (shape, dtype) in zip(paths, layout, strict=True)])
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{len(layout)} arrays of {sum(_host(leaf).size for leaf in leaves_of(state))} numbers, layout {digest}"


def layout_of(state: Any) -> tuple[Any, list[tuple[tuple[int, ...], Any]]]:
    """The state's structure, and the shape and dtype of each leaf."""
    leaves, structure = jax.tree.flatten(state)
    return structure, [(np.shape(leaf), leaf.dtype if hasattr(leaf, "dtype") else _host(leaf).dtype) for leaf in leaves]


def copy_of(state: Any) -> Any:
    """The same state, in containers and NumPy arrays of its own, which may be changed in place."""
    return jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, state)


def digest_of(state: Any) -> bytes:
    """A digest of the state's bits."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _cut(map(_host, leaves_of(state))):
        digest.update(part)
    return digest.digest()


def parts_of(leaves: Sequence[Any]) -> Iterator[memoryview]:
    """What another member needs of the leaves, in parts of at most `PART`: see `restored`."""
    weak = [isinstance(leaf, jax.Array) and bool(jax.typeof(leaf).weak_type) for leaf in leaves]
    yield from _cut([*map(_host, leaves), np.array(weak, bool)])


def _cut(arrays: Iterable[np.ndarray[Any, Any]]) -> Iterator[memoryview]:
    for array in arrays:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        for begin in range(0, len(data), PART):
            yield data[begin : begin + PART]


def restored(like: Any, parts: Iterator[bytes]) -> Any:
    """Reads a state that `parts_of` wrote: the leaves' bytes, and then one for each leaf that says if its type is weak.

    JAX gives a weak type to Python's numbers, and to what is computed from them alone. It decides which dtypes results
    have. If a newcomer's were others, its program would not be that of the other members. A step may change a weak type
    to a strong one, so those of `like` do not count.

    Args:
      like: a state of the same structure, shapes and dtypes.
      parts: the parts, cut in any way.

    Raises:
      MismatchError: there are fewer or more bytes than the state has.
    """
    leaves, tree = jax.tree.flatten(like)
    hosts = [_host(leaf) for leaf in leaves]
    data = bytearray()
    wanted = sum(host.nbytes for host in hosts) + len(hosts)
    for part in parts:
        data += part
        if len(data) > wanted:
            break
    if len(data) != wanted:
        raise MismatchError(f"{'more than ' * (len(data) > wanted)}{len(data)} bytes of state came, not {wanted}")
    made, begin = [], 0
    for leaf, host, weak in zip(leaves, hosts, data[wanted - len(hosts) :], strict=True):
        array = np.frombuffer(data, np.uint8, host.nbytes, begin).view(host.dtype).reshape(host.shape)
        made.append(_like(leaf, array, weak != 0))
        begin += host.nbytes
    return jax.tree.unflatten(tree, made)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _host(leaf: Any) -> np.ndarray[Any, Any]:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _like(leaf: Any, array: np.ndarray[Any, Any], weak: bool) -> Any:
    """The array as the same kind of leaf."""
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.array(array), impl=jax.random.key_impl(leaf))
    if isinstance(leaf, jax.Array):
        return _weak(array) if weak else jnp.array(array)
    return array.copy() if isinstance(leaf, np.ndarray) else type(leaf)(array[()])


def _weak(array: np.ndarray[Any, Any]) -> jax.Array:
    """The array with a weak type. JAX gives one to Python's numbers alone, and an update of elements keeps it."""
    return jnp.full(array.shape, array.dtype.type(0).item()).at[...].set(array)
