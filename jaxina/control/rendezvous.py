"""How the processes of one group agree on their aggregator, through a key-value store.

Each process announces itself and its settings. The leader, which is the process of the group's first device, waits for
all, compares their settings and sets up an aggregator. It then publishes how to join, or an error, which every process
raises.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxina.control.servers import Switch
from jaxina.control.store import Store
from jaxina.control.topology import Place
from jaxina.control.wording import listed
from jaxina.errors import (
    InvalidArgumentError,
    JaxinaError,
    MismatchError,
    NeverJoinedError,
    ShutDownError,
    WorkerLostError,
    from_code,
)

# A wait at the store cannot be interrupted. So it is done in slices of this many seconds, and `closing` and `ended` are
# checked between them.
_SLICE = 0.25
# If all processes have come when a follower's deadline passes, it gives the leader this many more seconds to publish.
_LEADER_GRACE = 10.0


@dataclasses.dataclass(frozen=True)
class Presence:
    """One process of the group, as it announces itself.

    Attributes:
      process: its number.
      place: where it runs.
      settings: its settings on which all processes must agree.
      switches: the switches through which it sends its updates on their way to servers.
    """

    process: int
    place: Place
    settings: dict[str, Any]
    switches: Sequence[Switch] = ()

    def to_json(self) -> str:
        """Writes the presence as JSON, for the store."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Presence:
        """Reads what `to_json` wrote."""
        data = json.loads(text)
        switches = [Switch(**{**one, "ports": tuple(one["ports"])}) for one in data["switches"]]
        return Presence(data["process"], Place(**data["place"]), data["settings"], switches)


Agreement = dict[str, Any]


class Rendezvous:
    """One meeting of the processes of a group.

    Args:
      store: the key-value store.
      prefix: starts the meeting's keys in the store. No earlier meeting may have used it.
      processes: the processes of the group, in the order of the workers. The first one leads.
      timeout: seconds that the meeting may take.
      closing: whether this process is shutting down.
      ended: returns the processes that are known to have ended.
    """

    def __init__(
        self,
        store: Store,
        prefix: str,
        processes: Sequence[int],
        timeout: float,
        closing: Callable[[], bool] = lambda: False,
        ended: Callable[[], set[int]] = set,
    ):
        self._store = store
        self._prefix = prefix
        self._processes = list(processes)
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._closing = closing
        self._ended = ended

    def meet(self, me: Presence, agree: Callable[[list[Presence]], Agreement]) -> Agreement:
        """Meets the other processes.

        Args:
          me: how this process announces itself.
          agree: sets up the aggregator. It is called in the leader only.

        Returns:
          What the leader's `agree` returned.

        Raises:
          NeverJoinedError: a process did not announce itself in time.
          WorkerLostError: a process of the group has ended.
          MismatchError: processes have different settings.
          InvalidArgumentError: two hosts have one name.
          ShutDownError: this process is shutting down.
          JaxinaError: the leader's `agree` raised it.
        """
        self._store.set(self._presence(me.process), me.to_json())
        if me.process == self._processes[0]:
            return self._lead(me, agree)
        return self._follow()

    def _lead(self, me: Presence, agree: Callable[[list[Presence]], Agreement]) -> Agreement:
        try:
            everybody = self._gather()
            _check_settings(me, everybody)
            check_names({presence.process: presence.place for presence in everybody})
            agreement = agree(everybody)
        except JaxinaError as error:
            self._publish({"error": error.code, "message": error.message})
            raise
        except Exception as error:
            self._publish({"error": "SYSTEM", "message": f"process {me.process} failed: {error!r}"})
            raise
        self._publish({"agreement": agreement})
        return agreement

    def _presence(self, process: int) -> str:
        return f"{self._prefix}/process/{process}"

    def _publish(self, answer: dict[str, Any]) -> None:
        self._store.set(f"{self._prefix}/agreement", json.dumps(answer))

    def _gather(self) -> list[Presence]:
        texts = {
            process: self._wait(self._presence(process), self._deadline) for process in _each_once(self._processes)
        }
        missing = [process for process, text in texts.items() if text is None]
        if missing:
            raise self._never_joined(missing)
        return [Presence.from_json(text) for text in texts.values() if text is not None]

    def _follow(self) -> Agreement:
        text = self._wait(f"{self._prefix}/agreement", self._deadline)
        if text is None:
            missing = [
                process for process in _each_once(self._processes) if self._store.look(self._presence(process)) is None
            ]
            if missing:
                raise self._never_joined(missing)
            text = self._wait(f"{self._prefix}/agreement", time.monotonic() + _LEADER_GRACE)
        if text is None:
            raise NeverJoinedError(
                f"process {self._processes[0]} leads the group. It came, but did not tell the others within "
                f"{self._timeout:g} s where to join; see its output"
            )
        answer = json.loads(text)
        if "error" in answer:
            raise from_code(answer["error"], answer["message"])
        return answer["agreement"]

    def _wait(self, key: str, deadline: float) -> str | None:
        while True:
            if self._closing():
                raise ShutDownError("jaxina.shutdown() ran while the group was still gathering")
            if gone := self._ended().intersection(self._processes):
                raise self._lost(min(gone))
            left = deadline - time.monotonic()
            if left <= 0:
                return self._store.look(key)
            text = self._store.get(key, min(left, _SLICE))
            if text is not None:
                return text

    def _lost(self, process: int) -> WorkerLostError:
        return WorkerLostError(
            f"worker {self._processes.index(process)} (process {process}) ended before all workers had reached this "
            "sum; see its output"
        )

    def _never_joined(self, missing: Sequence[int]) -> NeverJoinedError:
        workers = [index for index, process in enumerate(self._processes) if process in missing]
        return NeverJoinedError(
            f"worker{'s' if len(workers) > 1 else ''} {listed(workers)} of {len(self._processes)} did not join within "
            f"{self._timeout:g} s: process{'es' if len(missing) > 1 else ''} {listed(missing)} never reached this "
            "collective. Every process must run the same program, with the same jaxina.collectives(). If a process "
            "computes long before this collective, raise JAXINA_TIMEOUT"
        )


def _each_once(processes: Sequence[int]) -> list[int]:
    """The processes without repetition: a process with several workers is in the list once per worker."""
    return list(dict.fromkeys(processes))


def _check_settings(me: Presence, everybody: Sequence[Presence]) -> None:
    for other in everybody:
        check_equal_settings(me.process, me.settings, other.process, other.settings)


def check_equal_settings(process: int, mine: dict[str, Any], other: int, theirs: dict[str, Any]) -> None:
    """Compares the settings of two processes.

    Raises:
      MismatchError: they differ. The message names the first setting that does.
    """
    for name in sorted({*mine, *theirs}):
        if mine.get(name) != theirs.get(name):
            raise MismatchError(
                f"process {process} has {name}={mine.get(name)!r} but process {other} has {theirs.get(name)!r}: give "
                "all processes the same arguments of jaxina.init(), JAXINA_* variables and installed packages"
            )


def check_names(places: Mapping[int, Place]) -> None:
    """Checks that no two hosts have one name. All messages that name a host would be about both.

    Args:
      places: where each process runs, by its number.

    Raises:
      InvalidArgumentError: two have. The message names a process on each.
    """
    first: dict[str, int] = {}
    for process, place in places.items():
        other = first.setdefault(place.host, process)
        if places[other].machine != place.machine:
            raise InvalidArgumentError(
                f"process {other} (pid {places[other].pid}) and process {process} (pid {place.pid}) run on two hosts "
                f"that have one name, {place.host}, so no message could say on which: give each host a name of its "
                "own (hostnamectl hostname NAME), or each container (--hostname NAME)"
            )
