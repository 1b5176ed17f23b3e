"""What a service does when something has happened to a job: it tells the data plane and the job's processes."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

from jaxina.control import control_pb2 as pb
from jaxina.control.data_plane import DataPlane
from jaxina.control.job_records import Aborted, Effect, Left, Ready, Removed, Session
from jaxina.control.quota import ConnectQuota
from jaxina.control.ring_meetings import RingMeetings
from jaxina.control.status_reply import StatusReplies
from jaxina.errors import JaxinaError

_log = logging.getLogger(__name__)


class Outboxes:
    """What each session is still to be told. After None nothing follows."""

    def __init__(self) -> None:
        self._queues: dict[Session, asyncio.Queue[pb.SwitchMessage | None]] = {}

    def __getitem__(self, session: Session) -> asyncio.Queue[pb.SwitchMessage | None]:
        return self._queues[session]

    def __len__(self) -> int:
        return len(self._queues)

    def open(self, session: Session) -> None:
        """From now on the session is told what concerns its job."""
        self._queues[session] = asyncio.Queue()

    def tell(self, job: int, message: pb.SwitchMessage) -> None:
        """Tells all sessions of a job."""
        for session, queue in self._queues.items():
            if session.job == job:
                queue.put_nowait(message)

    def close(self, session: Session) -> None:
        """Ends the session after what it is still to be told. Does nothing if it has ended."""
        queue = self._queues.get(session)
        if queue is not None:
            queue.put_nowait(None)

    def close_all(self, job: int) -> None:
        """Ends all sessions of a job."""
        for session in [session for session in self._queues if session.job == job]:
            self.close(session)

    def drop(self, session: Session) -> None:
        """Forgets a session that has ended."""
        self._queues.pop(session, None)


class Effects:
    """Carries out the effects that the membership returns.

    Args:
      data_plane: what moves the packets.
      outboxes, replies, connects, rings: of the service.
    """

    def __init__(
        self,
        data_plane: DataPlane,
        outboxes: Outboxes,
        replies: StatusReplies,
        connects: ConnectQuota,
        rings: RingMeetings,
    ):
        self._data_plane = data_plane
        self._outboxes = outboxes
        self._replies = replies
        self._connects = connects
        self._rings = rings

    def perform(self, effects: Sequence[Effect]) -> None:
        """Carries out the effects, in their order."""
        for effect in effects:
            if isinstance(effect, Ready):
                _log.info("job %d: complete", effect.job)
                servers = [pb.WorkerServer(**dataclasses.asdict(server)) for server in effect.servers]
                self._outboxes.tell(effect.job, pb.SwitchMessage(ready=pb.Ready(servers=servers)))
            elif isinstance(effect, Left):
                _log.info("job %d: %s left", effect.job, effect.session)
                self._outboxes.tell(effect.job, pb.SwitchMessage(left=pb.Left(ranks=effect.session.ranks)))
            elif isinstance(effect, Aborted):
                code, message = effect.error.code, effect.error.message
                _log.warning("job %d: aborted: %s", effect.job, effect.error)
                self._tell_data_plane("abort_job", effect.job, code, message)
                self._rings.end(effect.job, effect.error)
                self._outboxes.tell(effect.job, pb.SwitchMessage(aborted=pb.Aborted(code=code, message=message)))
            elif isinstance(effect, Removed):
                _log.info("job %d: ended", effect.job)
                self._tell_data_plane("remove_job", effect.job)
                self._replies.forget(effect.job)
                self._connects.forget(effect.job)
                self._rings.forget(effect.job)
                self._outboxes.close_all(effect.job)

    def _tell_data_plane(self, method: str, *arguments: Any) -> None:
        """Calls the data plane. If that fails, it is logged, so that the workers still get the rest of the news."""
        try:
            getattr(self._data_plane, method)(*arguments)
        except Exception as error:
            _log.error("%s%s: %s", method, arguments, error, exc_info=not isinstance(error, JaxinaError))
