"""The token of a switch that does not serve everybody. It travels unencrypted with each call."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc

from jaxina.control.typed_status import refuse
from jaxina.errors import JobRejectedError

METADATA_KEY = "jaxina-token"

Request = TypeVar("Request")
Reply = TypeVar("Reply")


def metadata_of(token: str | None) -> tuple[tuple[str, str], ...]:
    """The metadata that a client sends with each call."""
    return () if token is None else ((METADATA_KEY, token),)


class TokenCheck(grpc.aio.ServerInterceptor):
    """Refuses every call without the token, before it reads anything of the call."""

    def __init__(self, token: str):
        self._token = token.encode()
        self._refusal: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(_refuse)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Request, Reply] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Request, Reply] | None:
        for key, value in handler_call_details.invocation_metadata:
            if key == METADATA_KEY and hmac.compare_digest(_as_bytes(value), self._token):
                return await continuation(handler_call_details)
        return self._refusal


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


async def _refuse(_: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
    await refuse(
        context,
        JobRejectedError(
            "this switch needs a token, and the call has none or a wrong one: set JAXINA_TOKEN to the switch's token, "
            "for every worker and for `jaxina status`"
        ),
    )
    yield  # makes this an async generator, which gRPC needs for a stream
