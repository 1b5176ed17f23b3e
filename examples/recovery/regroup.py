"""How the workers that are left, and new ones, agree who goes on: through files in a folder that all see.

A training run has lives: each begins with a list of members and ends when one of them dies. Whoever wants to be in
the next life says so; the first to come waits a while for the others, then writes the list.
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

SETTLE = 5.0  # seconds; survivors learn of a death within two, and start Python again
PATIENCE = 60.0


def meet(folder: Path, life: int, name: str, expected: int) -> dict[str, str]:
    """Takes part in a life as `name`; waits until `expected` members are there, or SETTLE has passed.

    Returns:
      The JAXINA_* variables of this member.

    Raises:
      TimeoutError: the list was not written; its writer has died, too.
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
    deadline = time.monotonic() + SETTLE
    while len(os.listdir(place / "members")) < expected and time.monotonic() < deadline:
        time.sleep(0.02)
    members = sorted(os.listdir(place / "members"))
    address = _start_coordinator(place, len(members))
    text = json.dumps({"members": members, "coordinator": address})
    (place / "list.partial").write_text(text)
    (place / "list.partial").rename(place / "list.json")


def _start_coordinator(place: Path, members: int) -> str:
    """Starts what the members of a life find each other by, and returns its address. It is a process of its own, which
    outlives any member: JAX ends all of them when it goes."""
    command = [sys.executable, "-m", "jaxina.cli", "coordinator", "-n", str(members)]  # one host; else --bind HOST:0
    coordinator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    (place / "coordinator").write_text(str(coordinator.pid))
    return coordinator.stdout.readline().removeprefix("JAXINA_COORDINATOR=").split()[0]


def end_coordinators(folder: Path) -> None:
    """Once all lives have ended."""
    for file in folder.glob("life-*/coordinator"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGTERM)
