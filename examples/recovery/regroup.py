"""How the workers that are left, and new ones, agree who goes on: through files in a folder that all see.

A training run has lives: each begins with a list of members and ends when one of them dies. Whoever wants to be in
the next life says so; the first to come waits a while for the others, then writes the list.
"""

from __future__ import annotations

import json
import os
import socket
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
    with socket.create_server(("127.0.0.1", 0)) as free:  # one host; else the leader's address
        address = f"127.0.0.1:{free.getsockname()[1]}"
    text = json.dumps({"members": sorted(os.listdir(place / "members")), "coordinator": address})
    (place / "list.partial").write_text(text)
    (place / "list.partial").rename(place / "list.json")
