"""Checkpoints with orbax: one process writes them, and each process reads them by itself.

By default orbax makes all processes wait for one another at barriers, where the survivors would wait for the dead
worker. Replicated training needs no barriers. Every worker holds the whole state, so worker 0 writes it as if it were
alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp


def _alone(process: int) -> ocp.Checkpointer:
    """Returns a checkpointer that takes `process` for the only process."""
    options = ocp.options.MultiprocessingOptions(
        primary_host=process, active_processes={process}, barrier_sync_key_prefix=f"process{process}"
    )
    return ocp.Checkpointer(
        ocp.StandardCheckpointHandler(multiprocessing_options=options), multiprocessing_options=options
    )


def save(folder: Path, step: int, tree: Any, process: int) -> None:
    """Writes a tree of NumPy arrays. Orbax gives a checkpoint its name only when it is complete."""
    with _alone(process) as checkpointer:
        checkpointer.save(folder.resolve() / str(step), args=ocp.args.StandardSave(tree), force=True)


def latest(folder: Path) -> int | None:
    """Returns the step of the newest complete checkpoint, or None if there is none."""
    steps = [int(path.name) for path in folder.glob("*") if path.name.isdigit()]
    return max(steps, default=None)


def restore(folder: Path, step: int, like: Any, process: int) -> Any:
    """Reads the tree of a checkpoint, with the structure and types of `like`."""
    with _alone(process) as checkpointer:
        return checkpointer.restore(folder.resolve() / str(step), args=ocp.args.StandardRestore(like))
