"""The service's end of a call with messages both ways: what a member must say first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Container
from typing import Any

from jaxina.control import limits
from jaxina.errors import InvalidArgumentError


async def first_message(
    requests: AsyncIterator[Any], oneof: str, kinds: Container[str], what: str, largest: int = limits.MAX_SESSION_BYTES
) -> Any:
    """Waits `limits.JOIN_WITHIN` seconds for the first message of a stream.

    Args:
      requests: the stream.
      oneof: the field group of the message that tells its kind.
      kinds: the kinds that may come first.
      what: for the error, the stream's name and what it begins with.
      largest: bytes.

    Raises:
      InvalidArgumentError: none came in time, or it is of another kind or too large.
    """
    with contextlib.suppress(StopAsyncIteration, TimeoutError):
        message = await asyncio.wait_for(anext(aiter(requests)), limits.JOIN_WITHIN)
        if message.WhichOneof(oneof) in kinds and message.ByteSize() <= largest:
            return message
    raise InvalidArgumentError(f"{what} of at most {largest} bytes, within {limits.JOIN_WITHIN:g} s")
