"""Checkpoints with orbax, written by one process and read by each for itself.

Orbax would have all processes meet at barriers, in which they would wait for a dead one. Replicated training needs
none: every worker holds everything, so worker 0 writes, as if it were alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp


def _alone(process: int) -> ocp.Checkpointer:
    options = ocp.options.MultiprocessingOptions(
        primary_host=process, active_processes={process}, barrier_sync_key_prefix=f"process{process}"
    )
    return ocp.Checkpointer(
        ocp.StandardCheckpointHandler(multiprocessing_options=options), multiprocessing_options=options
    )


def save(folder: Path, step: int, tree: Any, process: int) -> None:
    """Writes a tree of NumPy arrays; a checkpoint that is half written has another name."""
    with _alone(process) as checkpointer:
        checkpointer.save(folder.resolve() / str(step), args=ocp.args.StandardSave(tree), force=True)


def latest(folder: Path) -> int | None:
    """The step of the newest complete checkpoint."""
    steps = [int(path.name) for path in folder.glob("*") if path.name.isdigit()]
    return max(steps, default=None)


def restore(folder: Path, step: int, like: Any, process: int) -> Any:
    """The tree of a checkpoint, with the structure and types of `like`."""
    with _alone(process) as checkpointer:
        return checkpointer.restore(folder.resolve() / str(step), args=ocp.args.StandardRestore(like))
