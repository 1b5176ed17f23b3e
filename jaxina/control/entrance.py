"""How hosts come into a service: by a call with messages both ways that begins with a Join."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from jaxina.control import limits
from jaxina.control.first_message import first_message
from jaxina.control.quota import CallQuota, OpenLimit


class Entrance:
    """Limits how often an address calls a service, and how many sessions it opens. All runs in one asyncio loop.

    Args:
      who: whose sessions they are, for messages: "members", for example.

    Attributes:
      calls: counts the calls.
      waiting: counts streams that have not said what they are for.
      sessions: counts the sessions.
    """

    def __init__(self, who: str):
        self.calls = CallQuota()
        self.waiting = OpenLimit(f"{who} that have not joined", limits.WAITING_PER_ADDRESS, limits.MAX_WAITING)
        self.sessions = OpenLimit(who, limits.SESSIONS_PER_ADDRESS, limits.MAX_SESSIONS)

    async def let_in(
        self, requests: AsyncIterator[Any], address: str, now: float, what: str, inside: contextlib.ExitStack
    ) -> Any:
        """Waits for a session's Join, and returns it.

        Args:
          requests: the session's messages.
          address: where they come from.
          now: the time, in any clock's seconds that never go back.
          what: for the error, the stream's name and what it begins with.
          inside: the session counts until this ends.

        Raises:
          JobRejectedError: the address calls too often, or has too many sessions.
          InvalidArgumentError: no Join came in time, or it is too large.
        """
        self.calls.take(address, now)
        inside.enter_context(self.sessions.one_more(address))
        with self.waiting.one_more(address):
            return (await first_message(requests, "kind", {"join"}, what)).join
