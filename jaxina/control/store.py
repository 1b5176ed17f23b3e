"""The key-value store through which the processes of a group meet. It is jax.distributed's."""

from __future__ import annotations

from typing import Any, Protocol

from jaxina.errors import SystemCallError


class Store(Protocol):
    """A key-value store that all processes share."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str, timeout: float) -> str | None:
        """Waits up to `timeout` seconds for the value to be set. Returns None if it was not."""
        ...

    def look(self, key: str) -> str | None:
        """Returns the value without waiting; None if it is not set yet."""
        ...

    def claim(self, key: str, value: str) -> bool:
        """Sets the value, unless there is one. Returns whether it was set."""
        ...

    def look_below(self, folder: str) -> dict[str, str]:
        """Returns all values whose keys start with `folder`, by what follows it. The folder ends in a slash."""
        ...

    def delete(self, key: str) -> None:
        """Deletes the key; if it ends in a slash, all keys that start with it."""
        ...


class JaxStore:
    """The store of jax.distributed, which must be initialised. `client` is its run-time client."""

    def __init__(self, client: Any):
        self._client = client

    def set(self, key: str, value: str) -> None:
        try:
            self._client.key_value_set(key, value)
        except RuntimeError as error:
            raise SystemCallError(f"jax.distributed's key-value store refused {key}: {error}") from error

    def get(self, key: str, timeout: float) -> str | None:
        try:
            return self._client.blocking_key_value_get(key, max(1, int(1000 * timeout)))
        except RuntimeError as error:
            if "DEADLINE_EXCEEDED" in str(error):
                return None
            raise _no_answer(key, error) from error

    def look(self, key: str) -> str | None:
        try:
            return self._client.key_value_try_get(key)
        except RuntimeError as error:
            if "NOT_FOUND" in str(error):
                return None
            raise _no_answer(key, error) from error

    def claim(self, key: str, value: str) -> bool:
        try:
            self._client.key_value_set(key, value)
        except RuntimeError as error:
            if "ALREADY_EXISTS" in str(error):
                return False
            raise _no_answer(key, error) from error
        return True

    def look_below(self, folder: str) -> dict[str, str]:
        try:
            found = self._client.key_value_dir_get(folder)
        except RuntimeError as error:
            raise _no_answer(folder, error) from error
        return {key.removeprefix(folder): value for key, value in found}

    def delete(self, key: str) -> None:
        try:
            self._client.key_value_delete(key)
        except RuntimeError as error:
            raise _no_answer(key, error) from error


def _no_answer(key: str, error: Exception) -> SystemCallError:
    return SystemCallError(
        f"jax.distributed's key-value store did not answer for {key}: {error}. The process that runs it has ended: the "
        "launcher, or process 0 if the processes called jax.distributed.initialize() themselves"
    )
