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
    """Refuses every call without the token, before it reads anything of the call.

    Args:
      token: the token.
      of: what has it.
      callers: who must know it.
    """

    def __init__(self, token: str, of: str = "switch", callers: str = "every worker and for `jaxina status`"):
        self._token = token.encode()
        why = (
            f"this {of} needs a token, and the call has none or a wrong one: set JAXINA_TOKEN to the {of}'s token, "
            f"for {callers}"
        )

        async def refuse_call(
            _: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]
        ) -> AsyncIterator[Any]:
            await refuse(context, JobRejectedError(why))
            yield  # makes this an async generator, which gRPC needs for a stream

        self._refusal: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(refuse_call)

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
