"""After a worker's death, lets the survivors and new workers agree on who goes on. They use files in a shared folder.

A training run has lives. Each life begins with a list of members and ends when one of them dies. A worker that wants to
be in the next life creates a file with its name. The first worker to come waits a while for the others, then writes the
list.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# The first worker waits at most this many seconds for the others. Survivors learn of a death within two seconds, then
# start Python again.
SETTLE = 5.0
PATIENCE = 60.0  # every worker waits at most this many seconds for the list


def meet(folder: Path, life: int, name: str, expected: int) -> dict[str, str]:
    """Joins a life as `name`, and waits until the list of its members is written.

    The list is written once `expected` members have come, or once SETTLE seconds have passed.

    Returns:
      The JAXINA_* variables of this member.

    Raises:
      TimeoutError: the list was not written, because the worker that should have written it has died, too. Or the list
        was written before this worker came.
    """
    place = folder / f"life-{life}"
    (place / "members").mkdir(parents=True, exist_ok=True)
    (place / "members" / name).touch()
    try:
        (place / "leader").open("x").close()
    except FileExistsError:
        pass
    else:
        _lead(place, expected)
    deadline = time.monotonic() + PATIENCE
    while not (place / "list.json").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody wrote {place / 'list.json'}")
        time.sleep(0.02)
    found = json.loads((place / "list.json").read_text())
    if name not in found["members"]:
        raise TimeoutError(f"{name} came too late for life {life}")
    return {
        "JAXINA_RANK": str(found["members"].index(name)),
        "JAXINA_PROCESSES": str(len(found["members"])),
        "JAXINA_COORDINATOR": found["coordinator"],
    }


def _lead(place: Path, expected: int) -> None:
    """Waits for the members of a life, starts their coordinator and writes the list."""
    deadline = time.monotonic() + SETTLE
    while len(os.listdir(place / "members")) < expected and time.monotonic() < deadline:
        time.sleep(0.02)
    members = sorted(os.listdir(place / "members"))
    address = _start_coordinator(place, len(members))
    text = json.dumps({"members": members, "coordinator": address})
    (place / "list.partial").write_text(text)
    (place / "list.partial").rename(place / "list.json")


def _start_coordinator(place: Path, members: int) -> str:
    """Starts the coordinator, through which the members of a life find each other, and returns its address.

    It is a process of its own, because it must outlive every member: when the coordinator ends, JAX ends all members.
    """
    # This serves members on this host only. For several hosts, add --bind HOST:0.
    command = [sys.executable, "-m", "jaxina.cli", "coordinator", "-n", str(members)]
    coordinator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    (place / "coordinator").write_text(str(coordinator.pid))
    return coordinator.stdout.readline().removeprefix("JAXINA_COORDINATOR=").split()[0]


def end_coordinators(folder: Path) -> None:
    """Ends the coordinators of all lives. Call it when no worker runs any more."""
    for file in folder.glob("life-*/coordinator"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGTERM)
