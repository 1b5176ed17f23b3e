"""Assigns parts of the chip to jobs: job indices, slots, and entries of the admission tables."""

from __future__ import annotations

import dataclasses

from jaxina.controller.chip import Size
from jaxina.controller.journal import Written
from jaxina.controller.parts import Parts
from jaxina.errors import JobRejectedError, TooManyWorkersError

WORKER_BITS = 5
SLOT_BITS = 10


@dataclasses.dataclass(frozen=True)
class Station:
    """The addresses that a worker sends from."""

    mac: int
    ip: int
    udp_port: int
    port: int  # the chip's port that leads to it
    rdma: bool = False


@dataclasses.dataclass
class Job:
    """A job's part of the chip."""

    id: int
    secret: int
    workers: int
    slots: int
    index: int  # 1 to 255
    slot_base: int
    rkey: int
    stations: dict[int, Station] = dataclasses.field(default_factory=dict)  # workers whose entries are all written
    written: list[Written] = dataclasses.field(default_factory=list)
    ended: bool = False

    @property
    def over_rdma(self) -> bool:
        """Whether a worker has connected over RDMA."""
        return any(station.rdma for station in self.stations.values())

    @property
    def members(self) -> int:
        """How many get a copy of each result. None can be due before all have been heard from."""
        return self.workers

    @property
    def group(self) -> int:
        """The job's multicast group, 1 to 255."""
        return self.index

    def rid(self, worker: int) -> int:
        """Names a worker of a job; also the replication id of the worker's copies."""
        return self.index << WORKER_BITS | worker

    def stamp_index(self, slot: int, worker: int) -> int:
        return (self.slot_base + slot) << WORKER_BITS | worker

    def version_index(self, slot: int, version: int) -> int:
        return (self.slot_base + slot) << 1 | version

    def queue_pair(self, worker: int, queue: int) -> int:
        """Returns the switch's number of a queue pair. The last queue is that of the notices, which are not sent."""
        return 0x800000 | self.rid(worker) << SLOT_BITS | queue


class Pool(Parts[Job]):
    """The chip's job indices, slots and admission entries, and the jobs that have them."""

    def __init__(self, size: Size, entries_per_worker: int):
        super().__init__()
        self._size = size
        self._entries_per_worker = entries_per_worker
        self._last_index = 0

    def admissions_of(self, workers: int) -> int:
        """Returns how many entries of an admission table a job takes."""
        return workers * self._entries_per_worker + 2

    def add(
        self,
        job: int,
        secret: int,
        workers: int,
        slots: int,
        block_size: int,
        blocks: int,
        rkey: int,
    ) -> Job:
        """Gives a job its part.

        Raises:
          TooManyWorkersError: if the job has more workers than the chip can serve.
          JobRejectedError: if the job does not fit otherwise; the message says what would fit.
        """
        size = self._size
        if workers > size.workers:
            raise TooManyWorkersError(
                f"a job of {workers} workers; this switch serves {size.workers}: sum over a smaller mesh axis, or "
                "over two axes one after the other"
            )
        if (block_size, blocks) != (size.words, size.blocks_per_chunk):
            raise JobRejectedError(
                f"chunks of {blocks} blocks of {block_size} words; this switch adds {size.words} words at a time: set "
                f"JAXINA_BLOCK_SIZE={size.words} and JAXINA_BLOCKS_PER_CHUNK={size.blocks_per_chunk}"
            )
        self._check_new(job)
        index = self._free_index()
        used = sum(self.admissions_of(other.workers) for other in self.taken)
        if index is None or used + self.admissions_of(workers) > size.admissions:
            raise JobRejectedError(
                f"this switch has no room for another job of {workers} workers beside the {len(self.jobs)} it serves"
                f"{self.leftovers()}"
            )
        base = self._free_slots(slots)
        if base is None:
            taken = sum(other.slots for other in self.taken)
            raise JobRejectedError(
                f"a pool of {slots} slots; of this switch's {size.slots}, {size.slots - taken} are free, and a job's "
                f"must lie together: lower JAXINA_SLOTS{self.leftovers()}"
            )
        self._last_index = index
        added = self.jobs[job] = Job(job, secret, workers, slots, index, base, rkey)
        return added

    def _free_index(self) -> int | None:
        """Returns the next free index after the last one that was given, in a circle.

        A digest of the program names a job by its index alone. It may still be on its way when its job has gone, and
        must not be taken for one of the next job.
        """
        taken = {job.index for job in self.taken}
        count = self._size.jobs
        circle = (1 + (self._last_index + step) % count for step in range(count))
        return next((index for index in circle if index not in taken), None)

    def _free_slots(self, slots: int) -> int | None:
        """Returns the start of the first gap that is large enough.

        A job has a queue pair for each slot and one more, and their numbers have SLOT_BITS bits. So a job cannot have
        all slots.
        """
        if slots >= 1 << SLOT_BITS:
            return None
        base = 0
        for job in sorted(self.taken, key=lambda job: job.slot_base):
            if job.slot_base - base >= slots:
                return base
            base = job.slot_base + job.slots
        return base if self._size.slots - base >= slots else None
