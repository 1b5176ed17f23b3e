"""The errors that jaxina raises: one class per cause.

Errors from native code and from collectives inside compiled programs carry the cause in their text:
``jaxina[CODE]: message``. XLA raises that text in an exception of its own. It is a `ValueError` if the program fails
before its dispatch returns. Otherwise it is a `jax.errors.JaxRuntimeError`, which may appear only where the result is
first used. `typed` turns both into the classes below::

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
    """Base class of all errors that jaxina raises.

    The class pickles, so an error can be passed between processes.

    Attributes:
      code: the cause's name in the native code, for example ``"WORKER_LOST"``. One per class.
      message: the cause and the remedy, in words. ``str(error)`` is ``jaxina[CODE]: message``.
    """

    code = "UNKNOWN"

    def __init__(self, message: str):
        super().__init__(f"jaxina[{self.code}]: {message}")
        self.message = message

    def __reduce__(self) -> tuple[type[JaxinaError], tuple[str]]:
        return type(self), (self.message,)


class NotInitializedError(JaxinaError):
    """A program with carried sums was compiled or run while no job was running.

    Either `jaxina.init` was not called, or `jaxina.shutdown` was, or the process was forked after `jaxina.init`.
    """

    code = "NOT_INITIALIZED"


class NotCarriedError(JaxinaError):
    """A sum of the program stays with XLA, and `jaxina.init(strict=True)` refuses that. The message gives the
    reason."""

    code = "NOT_CARRIED"


class UnsupportedTypeError(JaxinaError):
    """A dtype that jaxina does not carry reached a place where XLA can no longer take over the collective."""

    code = "UNSUPPORTED_TYPE"


class InvalidArgumentError(JaxinaError, ValueError):
    """An argument, setting or combination of them is not allowed. The message says what is. Also a `ValueError`."""

    code = "INVALID_ARGUMENT"


class TooManyWorkersError(JaxinaError):
    """The job has more workers than the aggregator or the number format allows, or a rank is beyond the job's size."""

    code = "TOO_MANY_WORKERS"


class RankTakenError(JaxinaError):
    """Two processes claim the same rank."""

    code = "RANK_TAKEN"


class NeverJoinedError(JaxinaError):
    """A process did not join in time. The message lists which."""

    code = "NEVER_JOINED"


class MismatchError(JaxinaError):
    """Workers disagree: they sum different shapes, dtypes or psums at the same place, have different settings, or, in
    an elastic team, different states."""

    code = "MISMATCH"


class WorkerLostError(JaxinaError):
    """A worker's process died, or left while others still needed it. In an elastic team: the others go on without this
    member, or the state did not come from another one."""

    code = "WORKER_LOST"


class CollectiveTimeoutError(JaxinaError, TimeoutError):
    """A collective did not finish within its deadline (`JAXINA_TIMEOUT`). Also a `TimeoutError`."""

    code = "TIMEOUT"


class SwitchUnreachableError(JaxinaError, ConnectionError):
    """The switch, the scheduler of MLfabric or the keeper of an elastic team does not answer, or the connection to it
    broke. Also a `ConnectionError`."""

    code = "SWITCH_UNREACHABLE"


class JobRejectedError(JaxinaError):
    """The switch, a host of a job of MLfabric, or an elastic team's keeper or member refuses the job, the call or the
    transfer.

    It does not know the job (the job ended or the switch was restarted), the secret or the token is wrong, or the
    caller is over one of the switch's limits. The message says which.
    """

    code = "JOB_REJECTED"


class AuthenticationError(JaxinaError):
    """The two ends of a control call do not accept each other's TLS certificates, or only one of them uses TLS.

    A certificate has expired, is not valid yet, or is another authority's. The message says which, as far as it is
    known. If it is found out only at a group's first sum, the sum fails with a `JobRejectedError` with that message.
    """

    code = "AUTHENTICATION"


class NotSummedError(JaxinaError):
    """A transparent switch passes on what workers send each other, and does not sum it.

    Their traffic does not pass the switch, or it has lost the job, for example because it was restarted. The message
    says which.
    """

    code = "NOT_SUMMED"


class SharedMemoryError(JaxinaError):
    """The shared-memory segment of an embedded aggregator cannot be created, sized or mapped."""

    code = "SHARED_MEMORY"


class SystemCallError(JaxinaError, OSError):
    """A call to the operating system failed. Also an `OSError`, but without its `errno`."""

    code = "SYSTEM"


class GpuError(JaxinaError):
    """A CUDA call failed. The message holds the call and CUDA's reason."""

    code = "GPU"


class ShutDownError(JaxinaError):
    """`jaxina.shutdown` ran while sums were pending."""

    code = "SHUT_DOWN"


def _all_classes(base: type[JaxinaError]) -> dict[str, type[JaxinaError]]:
    return {cls.code: cls for cls in base.__subclasses__()}


BY_CODE: dict[str, type[JaxinaError]] = _all_classes(JaxinaError)


def from_code(code: str, message: str) -> JaxinaError:
    """Makes the error for a native code.

    Args:
      code: a native code such as ``"WORKER_LOST"``.
      message: the error's message, without the code.

    Returns:
      An error of the class with this code, or a plain `JaxinaError` if no class has it.
    """
    return BY_CODE.get(code, JaxinaError)(message)


def from_exception(error: BaseException) -> JaxinaError | None:
    """Finds the jaxina error behind an exception.

    Args:
      error: any exception, typically a `jax.errors.JaxRuntimeError` or a `ValueError` that XLA raised.

    Returns:
      `error` itself if it is a `JaxinaError`; else the typed error that its text carries; None if the exception does
      not come from jaxina.
    """
    if isinstance(error, JaxinaError):
        return error
    found = _TEXT.search(str(error))
    return from_code(found.group(1), found.group(2).strip()) if found else None


@contextlib.contextmanager
def typed() -> Iterator[None]:
    """Turns exceptions that jaxina caused into typed errors. A context manager and a decorator.

    All other exceptions pass through unchanged. JAX dispatches asynchronously, so wait for the results inside
    (`jax.block_until_ready`). Otherwise the error may appear later, outside.

    Raises:
      JaxinaError: of the subclass for the cause. XLA's own exception is its ``__cause__``.

    Example:
      >>> from jaxina import errors
      >>> with errors.typed():
      ...     raise ValueError("INTERNAL: jaxina[WORKER_LOST]: worker 1 of 4 died")
      Traceback (most recent call last):
      jaxina.errors.WorkerLostError: jaxina[WORKER_LOST]: worker 1 of 4 died
    """
    try:
        yield
    except Exception as error:
        cause = from_exception(error)
        if cause is None or cause is error:
            raise
        raise cause from error
