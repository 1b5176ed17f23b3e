from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy
from numpy.typing import NDArray
from typing_extensions import CapsuleType

from jaxina._native import numerics as numerics, sim as sim

def all_reduce(
    group: Sequence[int],
    device: int,
    values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order="C", device="cpu", writable=False)],
) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

SECOND_STREAM: int = 4294967296

def start(
    connector: Callable[[list[int]], GroupConfig], ended: Callable[[list[int], str, str], None], trace: bool = False
) -> None: ...
def shutdown() -> None: ...
def take_trace(process: int, name: str) -> tuple[bytes, int, int]: ...
def running() -> bool: ...
def set_team(group: Sequence[int], member: int = 0, step: int = 0) -> None: ...
def abort(group: Sequence[int], code: str, message: str) -> None: ...
def statistics() -> dict[str, int]: ...
def under_way() -> list[tuple[list[int], int, int, tuple[int, int, float] | None]]: ...
def name_sums(names: Sequence[tuple[int, str]]) -> None: ...
def sum_counts() -> dict[int, tuple[int, int]]: ...

class FrameSwitch:
    def __init__(self, interfaces: Sequence[str]) -> None: ...
    def add_ring(
        self,
        job: int,
        shape: JobShape,
        ends: Sequence[tuple[str, int, int, Sequence[int], int, int, int]],
        racks: Sequence[int] = [],
        rack: int | None = None,
    ) -> None: ...
    @staticmethod
    def ring_bytes(
        shape: JobShape,
        ends: Sequence[tuple[str, int, int, Sequence[int], int, int, int]],
        racks: Sequence[int] = [],
        rack: int | None = None,
    ) -> int: ...
    def remove_ring(self, job: int) -> None: ...
    def statistics(self) -> dict[str, Any]: ...
    def stop(self) -> None: ...

def load_gpu_part(library: str) -> None: ...
def gpu_handlers() -> dict[str, CapsuleType | dict[str, CapsuleType]]: ...
def gpu_types() -> dict[str, Any]: ...
def set_gpu_ids(id_of_ordinal: Mapping[int, int]) -> None: ...
def gpu_facts() -> dict[str, str]: ...
def gpu_link(bytes: int) -> tuple[float, float]: ...

class GroupConfig:
    def __init__(
        self,
        *,
        shape: JobShape,
        worker: int,
        local: Sequence[int],
        job: int = 0,
        secret: int = 0,
        join_timeout_s: float = 60.0,
        collective_timeout_s: float = 300.0,
    ) -> None: ...
    def use_embedded(self, segment: str) -> None: ...
    def use_udp(
        self,
        addresses: Sequence[tuple[str, int]],
        checksums: bool = True,
        *,
        at_workers: bool = False,
        switches: Sequence[tuple[str, int]] = [],
        first_window: int = 0,
        workers_per_link: int = 1,
        host: str = "",
        key: bytes = ...,
        loss: float = 0.0,
        loss_seed: int = 0,
    ) -> None: ...
    def use_roce(
        self,
        address: str,
        exchange: Callable[
            [tuple[str, int, int, list[int], int, int, int]], tuple[str, int, int, Sequence[int], int, int, int]
        ],
        checksums: bool = True,
        *,
        loss: float = 0.0,
        loss_seed: int = 0,
    ) -> None: ...
    def use_verbs(
        self,
        device: tuple[str, int | None, int | None],
        exchange: Callable[
            [tuple[str, int, int, list[int], int, int, int]], tuple[str, int, int, Sequence[int], int, int, int]
        ],
    ) -> None: ...
    def use_ring(
        self,
        host: str,
        exchange: Callable[
            [tuple[str, int, int, list[int], int, int, int]],
            tuple[
                tuple[str, int, int, Sequence[int], int, int, int], tuple[str, int, int, Sequence[int], int, int, int]
            ],
        ],
        *,
        has_switch: bool = False,
        loss: float = 0.0,
        loss_seed: int = 0,
    ) -> None: ...
    def use_verbs_ring(
        self,
        device: tuple[str, int | None, int | None],
        exchange: Callable[
            [tuple[str, int, int, list[int], int, int, int]],
            tuple[
                tuple[str, int, int, Sequence[int], int, int, int], tuple[str, int, int, Sequence[int], int, int, int]
            ],
        ],
        *,
        has_switch: bool = False,
        longest_wait_s: float = 300.0,
    ) -> None: ...
    @property
    def shape(self) -> JobShape: ...
    @property
    def worker(self) -> int: ...
    @property
    def job(self) -> int: ...
    @property
    def secret(self) -> int: ...
    @property
    def local(self) -> list[int]: ...
    @property
    def transport(self) -> dict[str, Any]: ...

def interface_addresses() -> list[tuple[str, str, int, int, bool, bool]]: ...
def encryption_availability() -> str: ...
def check_encryption() -> None: ...
def verbs_availability() -> str: ...
def check_rdma_device(device: tuple[str, int | None, int | None]) -> None: ...
def set_mpi_world(
    rank: int,
    size: int,
    host: str,
    ports: Sequence[int],
    timeout_s: float,
    devices: Callable[[], Sequence[int]],
    endpoints: Callable[[int, int], Sequence[tuple[str, int, int]]],
    ended: Callable[[int], bool],
) -> None: ...
def begin_mpi_program(
    identity: int, processes: Sequence[int], carries_sums: bool, moved: Sequence[int], precision: Sequence[int]
) -> None: ...
def end_mpi_program(compare: bool, completed: bool) -> None: ...

class RoceSwitch:
    def __init__(self, address: str, port: int, check_icrc: bool, loss: float, loss_seed: int) -> None: ...
    @property
    def port(self) -> int: ...
    def add_job(self, job: int, secret: int, shape: JobShape) -> None: ...
    def connect(
        self, job: int, worker: int, end: tuple[str, int, int, Sequence[int], int, int, int]
    ) -> tuple[str, int, int, list[int], int, int, int]: ...
    def remove_job(self, job: int) -> None: ...
    def abort_job(self, job: int, code: str, message: str) -> None: ...
    def statistics(self) -> dict[str, Any]: ...
    def missing(self, job: int) -> list[int]: ...
    def stop(self) -> None: ...

MAX_WORKERS: int = 1024

MAX_SLOTS: int = 65535

MIN_BLOCK_SIZE: int = 8

MAX_BLOCK_SIZE: int = 16384

MAX_BLOCKS_PER_CHUNK: int = 64

MAX_GROUPS: int = 255

HEADER_BYTES: int = 36

JOB_KEY_BYTES: int = 32

class JobShape:
    def __init__(
        self,
        *,
        devices: int,
        workers: int,
        slots: int,
        block_size: int,
        blocks_per_chunk: int,
        whole_chunks: bool = False,
    ) -> None: ...
    @property
    def devices(self) -> int: ...
    @property
    def workers(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def blocks_per_chunk(self) -> int: ...
    @property
    def whole_chunks(self) -> bool: ...
    @property
    def pool_bytes(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __repr__(self) -> str: ...

class SoftwareSwitch:
    def __init__(
        self,
        address: str,
        threads: int,
        loss: float,
        loss_seed: int,
        ports: Sequence[int] = [],
        entries: int = 0,
        share_sent_on: float = 0.0,
        port_rate: float = 0.0,
    ) -> None: ...
    @property
    def ports(self) -> list[int]: ...
    @property
    def receive_buffer_granted(self) -> int: ...
    @property
    def receive_buffer_requested(self) -> int: ...
    def add_job(self, job: int, secret: int, shape: JobShape, key: bytes = ...) -> None: ...
    def add_part(
        self,
        job: int,
        secret: int,
        shape: JobShape,
        index: int,
        of: int,
        groups: Sequence[Sequence[int]] = [],
        switches: Sequence[tuple[str, int]] = [],
        key: bytes = ...,
    ) -> None: ...
    def combine_job(
        self,
        job: int,
        secret: int,
        shape: JobShape,
        group: int,
        children: Sequence[tuple[Sequence[int], int | None]],
        upstream: Sequence[tuple[str, int]],
        ways: int,
    ) -> None: ...
    def slots_that_fit(self, shape: JobShape) -> int: ...
    def remove_job(self, job: int) -> None: ...
    def abort_job(self, job: int, code: str, message: str) -> None: ...
    def statistics(self) -> dict[str, Any]: ...
    def missing(self, job: int) -> list[int]: ...
    def stop(self) -> None: ...

def all_reduce_cpu() -> CapsuleType: ...
def team_all_reduce_cpu() -> CapsuleType: ...
def top_k_cpu() -> CapsuleType: ...
