"""A process's calls to a switch's control service, with deadlines and typed errors."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc

from jaxina.control import control_pb2 as pb
from jaxina.control import control_pb2_grpc, grpc_options
from jaxina.control.data_plane import QueuePairs, Terms
from jaxina.control.servers import WorkerServer
from jaxina.control.session import Session
from jaxina.control.tls import Tls, why_refused
from jaxina.control.token_check import metadata_of
from jaxina.control.typed_status import error_from, unreachable
from jaxina.errors import InvalidArgumentError, JaxinaError


@dataclasses.dataclass(frozen=True)
class JobGrant:
    """A job that the switch has made, as the leader of its workers learns of it."""

    job: int
    secret: int = dataclasses.field(repr=False)
    data_ports: list[int]
    terms: Terms
    first_window: int  # how many passes a worker may have in flight at first; 0: not known


class SwitchClient:
    """Calls the control service of a switch, or that of a job's first process.

    Every method raises SwitchUnreachableError if no switch answers, or else the error that the switch answered with.

    Args:
      address: the switch's, HOST:PORT.
      timeout: seconds that each call may take. A call waits so long for a switch that is not there yet, but not for a
        worker, which serves before it tells the others where.
      token: the switch's token, if it needs one.
      gone: makes the error to raise instead of SwitchUnreachableError, from a text that says what happened.
      at_worker: the worker in whose process the service runs; None: it runs at a switch.
      tls: this process's certificate, if the service uses TLS.
    """

    def __init__(
        self,
        address: str,
        timeout: float,
        token: str | None = None,
        *,
        gone: Callable[[str], JaxinaError] | None = None,
        at_worker: int | None = None,
        tls: Tls | None = None,
    ):
        self.address = address
        self._lost: Callable[[str], JaxinaError] = gone or functools.partial(unreachable, address)
        self._gone: Callable[[str], JaxinaError] = lambda why: why_refused(address, tls) or self._lost(why)
        self._at_worker = at_worker
        self._metadata = metadata_of(token)
        self._timeout = timeout
        self._channel = grpc_options.channel(address, tls)
        self._stub = control_pb2_grpc.AggregatorStub(self._channel)

    def create_job(
        self,
        *,
        devices: int,
        workers: int,
        slots: int,
        block_size: int,
        blocks_per_chunk: int,
        join_timeout: float,
        heartbeat_timeout: float,
        whole_chunks: bool = False,
        encrypt: bool = False,
    ) -> JobGrant:
        """Has the switch make a job, for workers that then join it.

        Args:
          devices: how many devices sum, in all processes together.
          workers: how many processes take part.
          slots: the pool's size.
          block_size: elements that share an exponent.
          blocks_per_chunk: blocks that one slot pass carries.
          join_timeout: after how many seconds a job that nobody has joined is dropped.
          heartbeat_timeout: after how many seconds of silence a worker counts as dead.
          whole_chunks: whether each pass carries either no words or those of a whole chunk.
          encrypt: whether the job's packets are to be encrypted.

        Raises:
          InvalidArgumentError: there can be no such job, or the switch cannot encrypt.
          TooManyWorkersError: it has too many devices or workers.
          JobRejectedError: the switch, or this address, has as many jobs as it may have.
        """
        reply = self._call(
            self._stub.CreateJob,
            pb.CreateJobRequest(
                devices=devices,
                workers=workers,
                slots=slots,
                block_size=block_size,
                blocks_per_chunk=blocks_per_chunk,
                join_timeout_s=join_timeout,
                heartbeat_timeout_s=heartbeat_timeout,
                whole_chunks=whole_chunks,
                encrypt=encrypt,
            ),
        )
        if encrypt and not reply.encrypted:
            raise InvalidArgumentError(
                f"the switch at {self.address} is older than this jaxina and cannot encrypt packets: start a newer "
                "one, or leave JAXINA_ENCRYPTION out in all processes"
            )
        terms = Terms(reply.whole_chunks, not reply.without_checksums)
        return JobGrant(reply.job, reply.secret, list(reply.data_ports), terms, reply.first_window)

    def join(
        self,
        job: int,
        secret: int,
        ranks: Sequence[int],
        *,
        heartbeat_timeout: float,
        statistics: Callable[[], dict[str, int]],
        aborted: Callable[[str, str], Any],
        server: WorkerServer | None = None,
    ) -> Session:
        """Joins a job with the workers of this process. `Session` describes the callbacks, and `server`.

        Raises:
          RankTakenError: another process has joined with one of the ranks.
          TooManyWorkersError: a rank is beyond the job's size.
          JobRejectedError: there is no such job, or its secret is another.
        """
        return Session(
            self._stub.Session,
            self._gone,
            self._lost,  # whoever has joined uses TLS as the service does
            job,
            secret,
            ranks,
            timeout=self._timeout,
            metadata=self._metadata,
            heartbeat_timeout=heartbeat_timeout,
            statistics=statistics,
            aborted=aborted,
            server=server,
            at_worker=self._at_worker,
        )

    def assist(self, requests: Iterator[pb.AssistRequest]) -> Any:
        """Asks a switch to help with a job. Returns the call: an iterator of `Assisting`, which can be cancelled."""
        return self._stub.Assist(requests, metadata=self._metadata)

    def status(self) -> pb.StatusReply:
        """Asks for the switch's state."""
        return self._call(self._stub.Status, pb.StatusRequest())

    def who_is_missing(self, job: int, secret: int) -> pb.WhoIsMissingReply:
        """Asks which workers of a job have not joined, and which its slots wait for."""
        request = pb.WhoIsMissingRequest(job=job, secret=secret)
        return self._call(self._stub.WhoIsMissing, request)

    def key(self, job: int, secret: int) -> bytes:
        """Asks for the key of a job whose packets are encrypted.

        Raises:
          JobRejectedError: there is no such job, or its secret is another, or its packets are in the clear.
        """
        return self._call(self._stub.GetKey, pb.GetKeyRequest(job=job, secret=secret)).key

    def connect_queue_pairs(self, job: int, secret: int, rank: int, end: QueuePairs) -> QueuePairs:
        """Tells the switch a joined worker's queue pairs, and returns the switch's that they are connected to.

        Raises:
          InvalidArgumentError: the switch has no RDMA, or the end does not fit the job.
          JobRejectedError: the worker is not joined to such a job, or queue pairs are connected too often.
        """
        reply = self._call(
            self._stub.ConnectQueuePairs,
            pb.ConnectQueuePairsRequest(
                job=job, secret=secret, rank=rank, worker=pb.QueuePairs(**dataclasses.asdict(end))
            ),
        )
        return QueuePairs.told(reply)

    def connect_ring(
        self, job: int, secret: int, rank: int, end: QueuePairs, timeout: float
    ) -> tuple[QueuePairs, QueuePairs]:
        """Tells a joined worker's queue pairs, and waits at most `timeout` seconds until all workers have told theirs.

        Returns:
          Those of the next worker in the ring, and of the previous one.

        Raises:
          InvalidArgumentError: the switch has no rings, or the end does not fit one.
          JobRejectedError: the worker is not joined to such a job, or has called before.
        """
        request = pb.ConnectQueuePairsRequest(
            job=job, secret=secret, rank=rank, worker=pb.QueuePairs(**dataclasses.asdict(end))
        )
        reply = self._call(self._stub.ConnectRing, request, timeout)
        return QueuePairs.told(reply.next), QueuePairs.told(reply.previous)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> SwitchClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: Any, request: Any, timeout: float | None = None) -> Any:
        try:
            return method(
                request,
                timeout=timeout or self._timeout,
                metadata=self._metadata,
                wait_for_ready=self._at_worker is None,
            )
        except grpc.RpcError as error:
            raise error_from(error, self._gone) from None
