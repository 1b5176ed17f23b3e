"""The errors that jaxina raises, one class per cause.

The native code and the collectives inside compiled programs name the cause in the error's text, ``jaxina[CODE]: message``.
XLA passes that text on in an exception of its own: a `ValueError` if the program fails before its dispatch returns, else a
`jax.errors.JaxRuntimeError`, possibly only where the result is first used. `typed` turns either into the class below::

    try:
        with jaxina.errors.typed():
            loss = train_step(...)
            loss.block_until_ready()
    except jaxina.errors.WorkerLostError:
        ...
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

_TEXT = re.compile(r"jaxina\[([A-Z_]+)\]: (.*)", re.DOTALL)


class JaxinaError(Exception):
    """Base of all errors of jaxina.

    Attributes:
      code: the cause's name in the native code, e.g. ``"WORKER_LOST"``.
      message: a sentence that names the cause and the remedy.
    """

    code = "UNKNOWN"

    def __init__(self, message: str):
        super().__init__(f"jaxina[{self.code}]: {message}")
        self.message = message

    def __reduce__(self) -> tuple[type[JaxinaError], tuple[str]]:
        return type(self), (self.message,)


class NotInitializedError(JaxinaError):
    """A psum ran before `jaxina.init`."""

    code = "NOT_INITIALIZED"


class NotCarriedError(JaxinaError):
    """A program's sum stays with XLA, and `jaxina.init(strict=True)` refuses that."""

    code = "NOT_CARRIED"


class UnsupportedTypeError(JaxinaError):
    """A dtype that is not carried."""

    code = "UNSUPPORTED_TYPE"


class InvalidArgumentError(JaxinaError, ValueError):
    """A configuration value or argument that cannot work."""

    code = "INVALID_ARGUMENT"


class TooManyWorkersError(JaxinaError):
    """More workers than the aggregator or the format allows."""

    code = "TOO_MANY_WORKERS"


class RankTakenError(JaxinaError):
    """Two workers claim one rank."""

    code = "RANK_TAKEN"


class NeverJoinedError(JaxinaError):
    """A worker did not join within the join deadline."""

    code = "NEVER_JOINED"


class MismatchError(JaxinaError):
    """Workers disagree about what they are summing."""

    code = "MISMATCH"


class WorkerLostError(JaxinaError):
    """A worker died."""

    code = "WORKER_LOST"


class CollectiveTimeoutError(JaxinaError, TimeoutError):
    """A collective did not finish within its deadline."""

    code = "TIMEOUT"


class SwitchUnreachableError(JaxinaError, ConnectionError):
    """The aggregator does not answer."""

    code = "SWITCH_UNREACHABLE"


class JobRejectedError(JaxinaError):
    """The aggregator refuses this job, its secret or its incarnation."""

    code = "JOB_REJECTED"


class SharedMemoryError(JaxinaError):
    """The shared-memory segment cannot be created, sized or mapped."""

    code = "SHARED_MEMORY"


class SystemCallError(JaxinaError, OSError):
    """An operating-system call failed."""

    code = "SYSTEM"


class GpuError(JaxinaError):
    """A CUDA call failed."""

    code = "GPU"


class ShutDownError(JaxinaError):
    """`jaxina.shutdown` ran while work was pending."""

    code = "SHUT_DOWN"


def _all_classes(base: type[JaxinaError]) -> dict[str, type[JaxinaError]]:
    return {cls.code: cls for cls in base.__subclasses__()}


BY_CODE: dict[str, type[JaxinaError]] = _all_classes(JaxinaError)


def from_code(code: str, message: str) -> JaxinaError:
    """The error with this native code; `JaxinaError` itself for a code that Python does not know."""
    return BY_CODE.get(code, JaxinaError)(message)


def from_exception(error: BaseException) -> JaxinaError | None:
    """The jaxina error that `error` is, or that an XLA run-time error carries in its text.

    Args:
      error: any exception, typically a `jax.errors.JaxRuntimeError` or a `ValueError` of XLA's.

    Returns:
      The typed error, or None if `error` does not come from jaxina.
    """
    if isinstance(error, JaxinaError):
        return error
    found = _TEXT.search(str(error))
    return from_code(found.group(1), found.group(2).strip()) if found else None


@contextlib.contextmanager
def typed() -> Iterator[None]:
    """Inside it, and as a decorator, an exception that jaxina caused leaves as the typed error that names the cause; all
    others leave as they are.

    JAX dispatches asynchronously: wait for the results inside (`jax.block_until_ready`), or the error may surface later.

    Raises:
      JaxinaError: of the class for the cause, raised from XLA's own exception.
    """
    try:
        yield
    except Exception as error:
        cause = from_exception(error)
        if cause is None or cause is error:
            raise
        raise cause from error
