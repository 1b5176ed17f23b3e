"""Gives jobs whose updates the chip combines their parts: job indices, entries, and salts of keys."""

from __future__ import annotations

import dataclasses

from jaxina.control.roles import Child
from jaxina.controller.chip import ATP
from jaxina.controller.journal import Written
from jaxina.controller.parts import Parts
from jaxina.controller.pool import WORKER_BITS, Station
from jaxina.errors import JobRejectedError, TooManyWorkersError

ENTRIES = 2048  # p4/tofino/atp_constants.p4
MOST_CHILDREN = 1 << WORKER_BITS  # of a job; also the number of its addresses above
_UPSTREAMS = 4096  # slots of all jobs
_CHILDREN_OF_JOBS = 4096  # workers of all jobs
_ABOVE = 1 << 13  # the bit of a rid that is a station above
_FIRST_GROUP = 0xFF00  # rdma_engine/wire/packet.h
_GOLDEN = 0x9E3779B97F4A7C15


@dataclasses.dataclass
class CombinedJob:
    """A job's part of the chip.

    Attributes:
      salt: is xored with a pass's epoch to make its key. Two registrations never have the same.
      first_entry: of slot 0; the other slots' entries follow.
      upstream: the servers, or the ports of the switch above. Slot i goes to number i mod their number.
      stations: the children that have been heard from, and whose entries are all written, by their index.
      written: the job's entries that the chip may have.
    """

    id: int
    secret: int
    slots: int
    index: int  # 1 to 255
    salt: int
    first_entry: int
    group_number: int
    children: tuple[Child, ...]
    upstream: tuple[Station, ...]
    stations: dict[int, Station] = dataclasses.field(default_factory=dict)
    written: list[Written] = dataclasses.field(default_factory=list)

    @property
    def members(self) -> int:
        return len(self.children)

    @property
    def group(self) -> int:
        """The multicast group of the children, 1 to 255."""
        return self.index

    @property
    def slot_base(self) -> int:
        return self.first_entry

    @property
    def sender(self) -> int:
        """What a sum says to be sent by."""
        return _FIRST_GROUP + self.group_number

    def rid(self, member: int) -> int:
        """Names a child of a job; also the replication id of its copies."""
        return self.index << WORKER_BITS | member

    def rid_above(self, number: int) -> int:
        """Names a server of a job, or a port of the switch above."""
        return _ABOVE | self.index << WORKER_BITS | number

    def entry(self, slot: int) -> int:
        return (self.first_entry + slot) % ENTRIES

    @staticmethod
    def sender_of(child: Child) -> int:
        return child.workers[0] if child.group is None else _FIRST_GROUP + child.group


class AtpPool(Parts[CombinedJob]):
    """The jobs whose updates the chip combines.

    Args:
      entries: over how many entries the jobs' first ones are spread.
      first_salt: a random number of 32 bits.
    """

    def __init__(self, entries: int, first_salt: int):
        super().__init__()
        self._entries = entries
        self._last_salt = first_salt
        self._registrations = 0
        self._last_index = 0

    def add(
        self,
        job: int,
        secret: int,
        slots: int,
        words: int,
        group: int,
        children: tuple[Child, ...],
        upstream: tuple[Station, ...],
    ) -> CombinedJob:
        """Gives a job its part.

        Raises:
          TooManyWorkersError: if the job has more children than the chip can tell apart.
          JobRejectedError: if the job does not fit otherwise; the message says what would fit.
        """
        if len(children) > MOST_CHILDREN:
            raise TooManyWorkersError(
                f"a job with {len(children)} workers or racks below this switch; it tells {MOST_CHILDREN} apart"
            )
        if words != ATP.words:
            raise JobRejectedError(
                f"chunks of {words} words; this switch adds {ATP.words} words at a time: set "
                f"JAXINA_BLOCK_SIZE={ATP.words} and JAXINA_BLOCKS_PER_CHUNK={ATP.blocks_per_chunk}"
            )
        if len(upstream) > MOST_CHILDREN:
            raise JobRejectedError(f"a job with {len(upstream)} servers; this switch knows {MOST_CHILDREN} of a job")
        self._check_new(job)
        others = self.taken
        below = [child for of_job in (children, *(other.children for other in others)) for child in of_job]
        workers = sum(len(child.workers) for child in below)
        taken = {other.index for other in others}
        index = next((i for i in self._circle() if i not in taken), None)
        most_slots = min(ENTRIES, _UPSTREAMS - sum(other.slots for other in others))
        if index is None or workers > _CHILDREN_OF_JOBS or slots > most_slots:
            raise JobRejectedError(
                f"this switch has no room for a job with {slots} slots beside the {len(self.jobs)} jobs that it "
                f"combines{self.leftovers()}"
            )
        self._last_index = index
        self._registrations += 1
        first_entry = (self._registrations * _GOLDEN % 2**64 >> 32) * self._entries >> 32
        salt = self._salt()
        added = CombinedJob(job, secret, slots, index, salt, first_entry, group, children, upstream)
        self.jobs[job] = added
        return added

    def _salt(self) -> int:
        """Returns a salt that no other registration has had. It is not 0, because entries that nobody has ever owned
        have the key 0, and the tag of a pass 0."""
        self._last_salt = (self._last_salt + (_GOLDEN >> 32 | 1)) % 2**32
        return self._last_salt or self._salt()

    def _circle(self) -> list[int]:
        """Returns all indices, the one after the last that was given first: a late digest names a job by its index."""
        return [1 + (self._last_index + step) % ATP.jobs for step in range(ATP.jobs)]
