"""How jaxina's errors travel over gRPC: the code in the trailing metadata, the message as the status message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import grpc

from jaxina.errors import JaxinaError, SwitchUnreachableError, from_code

METADATA_KEY = "jaxina-error"

_STATUS = {
    "INVALID_ARGUMENT": grpc.StatusCode.INVALID_ARGUMENT,
    "TOO_MANY_WORKERS": grpc.StatusCode.OUT_OF_RANGE,
    "RANK_TAKEN": grpc.StatusCode.ALREADY_EXISTS,
    "JOB_REJECTED": grpc.StatusCode.PERMISSION_DENIED,
    "MISMATCH": grpc.StatusCode.FAILED_PRECONDITION,
    "WORKER_LOST": grpc.StatusCode.ABORTED,
}


def status_of(error: JaxinaError) -> grpc.StatusCode:
    """The gRPC status code for an error."""
    return _STATUS.get(error.code, grpc.StatusCode.UNKNOWN)


async def refuse(context: grpc.aio.ServicerContext[Any, Any], error: JaxinaError) -> NoReturn:
    """Ends the call with the error. It never returns."""
    await context.abort(status_of(error), error.message, ((METADATA_KEY, error.code),))
    raise AssertionError("abort raises")


def error_from(call: grpc.RpcError, gone: Callable[[str], JaxinaError]) -> JaxinaError:
    """Makes the jaxina error for a failed call.

    It is the error that the other side answered with, or ``gone(why)`` if it did not answer.
    """
    metadata: Any = call.trailing_metadata() or ()  # pairs, whatever the stubs say
    for key, value in metadata:
        if key == METADATA_KEY:
            return from_code(str(value), call.details() or "")
    return gone(f"{call.code().name.lower().replace('_', ' ')}: {call.details()}")


def unreachable(address: str, why: str) -> SwitchUnreachableError:
    """Makes the error that says that no switch answers at `address`."""
    return SwitchUnreachableError(
        f"no switch answers at {address} ({why}). Start one with `jaxina switch --bind {address}`, or name a running "
        "one by jaxina.init(switch='HOST:PORT') or JAXINA_SWITCH"
    )
