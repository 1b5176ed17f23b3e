"""Runs spin over one configuration of a model."""

import dataclasses
import pathlib
import re
import subprocess

FOLDER = pathlib.Path(__file__).parent
MEMORY_MIB = 6000
TIME_LIMIT_S = 900
DEPTH = 2_000_000


@dataclasses.dataclass(frozen=True)
class Check:
    """One run of spin: with `progress` it searches for cycles, else for failed assertions and invalid end states."""

    model: str
    name: str
    defines: str
    holds: bool = True
    progress: bool = False

    @property
    def options(self) -> list[str]:
        return [f"-D{define}" for define in self.defines.split()]


def search(check: Check, folder: str, *compiled_with: str) -> str:
    """Compiles the model's search in `folder`, runs it and returns its output. A failure leaves a trail there."""
    model = str(FOLDER / check.model)
    subprocess.run(["spin", "-a", *check.options, model], cwd=folder, check=True, stdout=subprocess.PIPE)
    mode = ["-DNP"] if check.progress else ["-DSAFETY", *compiled_with]
    sizes = ["-DCOLLAPSE", "-DVECTORSZ=4096", f"-DMEMLIM={MEMORY_MIB}"]
    subprocess.run(["cc", "-O1", "-w", *mode, *sizes, "-o", "pan", "pan.c"], cwd=folder, check=True)
    # A network that keeps packets forever never comes to rest, so its end states mean nothing: -E ignores them.
    forever = "FOREVER" in check.defines
    options = [f"-m{DEPTH}", *(["-l"] if check.progress else ["-E"] if forever else [])]
    return subprocess.run(
        ["./pan", *options], cwd=folder, check=True, stdout=subprocess.PIPE, text=True, timeout=TIME_LIMIT_S
    ).stdout


def _figure(pattern: str, output: str) -> float:
    found = re.search(pattern, output)
    if found is None:
        raise RuntimeError(f"spin did not print {pattern!r}:\n{output}")
    return float(found[1])


def verdict(check: Check, folder: str) -> tuple[bool, str]:
    """Returns whether the property holds, and the number of states and the memory as text."""
    output = search(check, folder)
    errors = _figure(r"errors: (\d+)", output)
    if errors == 0 and ("max search depth too small" in output or "Search not completed" in output):
        raise RuntimeError(f"{check.name}: the search was not exhaustive\n{output}")
    states = _figure(r"(\S+) states, stored", output)
    memory = _figure(r"(\S+)\s+total actual memory usage", output)
    return errors == 0, f"{states:>12,.0f} states {memory:>8,.0f} MB"


def shortest_trace(check: Check, folder: str) -> str:
    """Returns what the model prints on the shortest way to a failure. Not for checks of progress."""
    output = search(check, folder, "-DBFS")
    if _figure(r"errors: (\d+)", output) == 0:
        raise RuntimeError(f"{check.name}: nothing fails")
    replayed = subprocess.run(
        ["spin", "-t", "-k", *(str(trail) for trail in pathlib.Path(folder).glob("*.trail")), *check.options]
        + [str(FOLDER / check.model)],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout
    until_failure, _, failure = replayed.partition("spin: text of failed assertion: ")
    lines = [line.strip() for line in until_failure.splitlines()]
    told = [line for line in lines if re.match(r"(switch|server|worker) ?\d*:", line)]
    return "\n".join([*told, f"failed: {failure.splitlines()[0]}"])
