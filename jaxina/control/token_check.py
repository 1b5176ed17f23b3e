"""The token of a switch that does not serve everybody. It travels unencrypted with each call."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from jaxina.control.typed_status import refuse
from jaxina.errors import JobRejectedError

METADATA_KEY = "jaxina-token"


def metadata_of(token: str | None) -> tuple[tuple[str, str], ...]:
    """The metadata that a client sends with each call."""
    return () if token is None else ((METADATA_KEY, token),)


class TokenCheck(grpc.aio.ServerInterceptor):
    """Refuses every call without the token, before it reads anything of the call."""

    def __init__(self, token: str):
        self._token = token.encode()
        self._refusal = grpc.stream_stream_rpc_method_handler(_refuse)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        for key, value in handler_call_details.invocation_metadata:
            if key == METADATA_KEY and hmac.compare_digest(value.encode(), self._token):
                return await continuation(handler_call_details)
        return self._refusal


async def _refuse(_: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
    await refuse(
        context,
        JobRejectedError(
            "this switch needs a token, and the call has none or a wrong one: set JAXINA_TOKEN to the switch's token, "
            "for every worker and for `jaxina status`"
        ),
    )
    yield  # makes this an async generator, which gRPC needs for a stream
