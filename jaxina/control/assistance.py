"""What is asked of switches for a job: to combine updates, to be servers, or to sum the workers of a rack."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import grpc

from jaxina._native import JobShape
from jaxina.control import control_pb2 as pb
from jaxina.control.client import SwitchClient
from jaxina.control.racks import Layout
from jaxina.control.roles import Combine, RackOfRing, Serve
from jaxina.control.servers import Switch
from jaxina.control.switch_address import ANSWER_TIMEOUT, find
from jaxina.control.tls import Tls
from jaxina.control.typed_status import error_from, unreachable
from jaxina.errors import InvalidArgumentError, JaxinaError

_log = logging.getLogger(__name__)

_WAIT_TO_COMBINE = 1.0  # seconds that a job waits for its switches before it begins without them
_RETRY = 0.5  # seconds between two attempts to reach a switch that is away


class Assistance:
    """One switch's help with one job.

    Args:
      client: calls the switch.
      request: what the switch shall do.
      lost: called with the error each time that the switch stops helping. On another thread.
      again: whether to ask again, until `close`, whenever the switch was away.
    """

    def __init__(
        self, client: SwitchClient, request: pb.AssistRequest, lost: Callable[[JaxinaError], None], again: bool = True
    ):
        self._client = client
        self._request = request
        self._lost = lost
        self._again = again
        self._closing = threading.Event()
        self._answered = threading.Event()
        self._reply: pb.Assisting | None = None
        self._error: JaxinaError | None = None
        self._call: grpc.Call | None = None
        self._thread = threading.Thread(target=self._run, name=f"jaxina-assist-{request.job}", daemon=True)
        self._thread.start()

    def reply(self, timeout: float) -> pb.Assisting:
        """Waits for the switch's first answer, at most `timeout` seconds.

        Raises:
          SwitchUnreachableError: it did not answer.
          JaxinaError: the switch refused.
        """
        if not self.wait(timeout):
            raise unreachable(self._client.address, f"no answer within {timeout:g} s")
        if self._reply is None:
            assert self._error is not None
            raise self._error
        return self._reply

    def wait(self, timeout: float) -> bool:
        """Waits until the switch has answered for the first time, or could not be reached. Returns whether it has."""
        return self._answered.wait(timeout)

    def close(self) -> None:
        """Ends the help."""
        self._closing.set()
        if self._call is not None:
            self._call.cancel()
        if threading.current_thread() is not self._thread:  # its own callback may end the job
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            error = self._hold()
            if self._closing.is_set():
                return
            self._error = error
            self._answered.set()
            self._lost(error)
            if not self._again:
                return
            self._closing.wait(_RETRY)

    def _hold(self) -> JaxinaError:
        """Asks, and waits until the switch stops helping. Returns why it did."""
        ended = threading.Event()

        def requests() -> Iterator[pb.AssistRequest]:
            yield self._request
            ended.wait()  # the switch helps as long as the stream is open

        self._call = call = self._client.assist(requests())
        if self._closing.is_set():  # close() may have looked for a call before this one was there
            call.cancel()
        try:
            for reply in call:
                self._reply = reply
                self._answered.set()
                _log.info("the switch at %s helps with job %d", self._client.address, self._request.job)
            return unreachable(self._client.address, "it ended the help with this job, so it was probably stopped")
        except grpc.RpcError as error:
            return error_from(error, lambda why: unreachable(self._client.address, why))
        finally:
            ended.set()


class Helpers:
    """Switches that help with this process's jobs. Any thread may call it.

    Args:
      timeout: seconds that each may take to answer a call.
      token: their token, if they need one.
      tls: this process's certificate, if they use TLS.
    """

    def __init__(self, timeout: float, token: str | None, tls: Tls | None = None):
        self._timeout = min(ANSWER_TIMEOUT, timeout)
        self._token = token
        self._tls = tls
        self._clients: dict[str, SwitchClient] = {}  # of the switches that help, by control address
        self._helping: dict[int, list[Assistance]] = {}
        self._lock = threading.Lock()  # guards the two above

    def find(self, address: str) -> Switch:
        """Looks for the switch at a control address, HOST:PORT.

        Raises:
          SwitchUnreachableError: it does not answer.
        """
        with SwitchClient(address, self._timeout, self._token, tls=self._tls) as client:
            return find(client)

    def combine(self, job: int, secret: int, shape: JobShape, roles: Mapping[str, Combine]) -> None:
        """Has switches combine a job's updates. The job goes on, only slower, where one is away or refuses.

        Waits for their answers, at most a second. Otherwise the first packets would find switches that do not know the
        job, and go to the servers uncombined.

        Args:
          job: the job.
          secret: its secret.
          shape: its shape.
          roles: what each switch combines, by control address.
        """
        begun = [
            self._begin(address, job, secret, shape, role, _Warning(address, job)) for address, role in roles.items()
        ]
        until = time.monotonic() + _WAIT_TO_COMBINE
        for one in begun:
            one.wait(max(0, until - time.monotonic()))

    def serve(
        self,
        job: int,
        secret: int,
        shape: JobShape,
        servers: Sequence[Switch],
        layout: Layout,
        lost: Callable[[JaxinaError], None],
    ) -> int:
        """Has each of some servers sum a part of a job's slots, in the order of `racks.in_turn`.

        Args:
          job: the job.
          secret: its secret.
          shape: its shape.
          servers: the servers.
          layout: the switches that combine updates on the way.
          lost: called with the error when one stops serving. The job cannot go on then.

        Returns:
          How many passes a worker may have in flight at first; 0: not known.

        Raises:
          InvalidArgumentError: they have different numbers of threads.
          JaxinaError: one refuses, or does not answer.
        """
        if len({len(one.ports) for one in servers}) > 1:
            raise InvalidArgumentError(
                "the servers of a job need equal numbers of threads, but "
                + ", ".join(f"{one.control} has {len(one.ports)}" for one in servers)
                + ": start them with equal --threads"
            )
        groups, tops = tuple(map(tuple, layout.groups)), tuple(layout.tops)
        begun = [
            self._begin(server.control, job, secret, shape, Serve(index, len(servers), groups, tops), lost)
            for index, server in enumerate(servers)
        ]
        rooms = [one.reply(ANSWER_TIMEOUT).first_window for one in begun]
        return min(shape.slots, len(rooms) * min(rooms)) if all(rooms) else 0

    def sum_racks(
        self,
        job: int,
        secret: int,
        shape: JobShape,
        roles: Mapping[str, RackOfRing],
        lost: Callable[[JaxinaError], None],
    ) -> None:
        """Has the switches of racks sum a ring, and waits for their answers.

        Args:
          job: the job.
          secret: its secret.
          shape: its shape.
          roles: what each switch does, by control address.
          lost: called with the error when one stops. It is not asked again: a switch that has forgotten a ring must
            not go on with it.

        Raises:
          JaxinaError: one refuses, or does not answer.
        """
        begun = [self._begin(control, job, secret, shape, role, lost, again=False) for control, role in roles.items()]
        for one in begun:
            one.reply(ANSWER_TIMEOUT)

    def release(self, job: int) -> None:
        """Ends the help with one job, if there is any."""
        with self._lock:
            ended = self._helping.pop(job, [])
        for one in ended:
            one.close()

    def close(self) -> None:
        """Ends all help."""
        for job in list(self._helping):
            self.release(job)
        for client in self._clients.values():
            client.close()

    def _begin(
        self,
        address: str,
        job: int,
        secret: int,
        shape: JobShape,
        role: Combine | RackOfRing | Serve,
        lost: Callable[[JaxinaError], None],
        again: bool = True,
    ) -> Assistance:
        request = pb.AssistRequest(
            job=job,
            secret=secret,
            workers=shape.workers,
            devices=shape.devices,
            slots=shape.slots,
            block_size=shape.block_size,
            blocks_per_chunk=shape.blocks_per_chunk,
        )
        role.write(request)
        with self._lock:
            if address not in self._clients:
                self._clients[address] = SwitchClient(address, self._timeout, self._token, tls=self._tls)
            begun = Assistance(self._clients[address], request, lost, again)
            self._helping.setdefault(job, []).append(begun)
        return begun


class _Warning:
    """Says once for each time that a switch does not combine a job."""

    def __init__(self, address: str, job: int):
        self._address = address
        self._job = job
        self._last = ""

    def __call__(self, error: JaxinaError) -> None:
        if error.message != self._last:
            _log.warning(
                "the switch at %s does not combine job %d: %s. Its updates go directly to the servers until it does",
                *(self._address, self._job, error.message),
            )
        self._last = error.message
