"""What each process of a suite does: it forms the sums of each combination, and writes their hashes to a file.

Its argument is JSON, see `Options`; or ``describe``, to print what this interpreter has.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import platform
import sys
from pathlib import Path
from typing import IO, Any

from jaxina.certificate.combinations import INSIDE, ORDERS, SWITCHED, TRANSPARENT, Case, Setting

_AGGREGATORS = {INSIDE: "embedded", TRANSPARENT: "netreduce"}  # the latter's switch is in the environment


@dataclasses.dataclass(frozen=True)
class Options:
    """What the command passes to its workers.

    Attributes:
      settings: to go through, each with all cases.
      cases: how the program is compiled.
      switches: HOST:PORT of a switch, by its loss.
      folder: where process r writes r.jsonl.
      native: whether to let XLA sum as well.
    """

    settings: tuple[Setting, ...]
    cases: tuple[Case, ...]
    switches: dict[str, str]
    folder: str
    native: bool

    def to_text(self) -> str:
        """Writes the options as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_text(text: str) -> Options:
        """Reads what `to_text` wrote."""
        data = json.loads(text)
        data["settings"] = tuple(Setting(**one) for one in data["settings"])
        data["cases"] = tuple(Case(**one) for one in data["cases"])
        return Options(**data)


def describe() -> dict[str, Any]:
    """What this interpreter has."""
    from jaxina import _native

    versions = {name: importlib.metadata.version(name) for name in ("jaxina", "jax", "jaxlib", "numpy")}
    return {
        "versions": {"python": platform.python_version(), **versions},
        "codecs": _native.numerics.codec_names(),
        "verbs": _native.verbs_availability(),
    }


class Work:
    """One process's part in a suite. Each line that it writes is a JSON object: `verdict` reads them."""

    def __init__(self, options: Options):
        self._options = options
        self._program: Any = None
        self._file: IO[str] | None = None

    def run(self) -> None:
        """Goes through the settings."""
        import jaxina

        options = self._options
        for number, setting in enumerate(options.settings):
            with jaxina.init(
                _AGGREGATORS.get(setting.transport, setting.transport),
                switch=options.switches[f"{setting.loss:g}"] if setting.transport in SWITCHED else None,
                slots=setting.slots,
                blocks_per_chunk=setting.blocks,
                loss=setting.loss or None,
                loss_seed=number,
            ) as job:
                if self._file is None:
                    self._start(job.process)
                self._go_through_cases(number, job)
        self._write("end")

    def _start(self, process: int) -> None:
        """What needs JAX's backend, which starts after the first `jaxina.init`."""
        import jax

        import jaxina
        from jaxina.certificate import program

        options = self._options
        self._file = (Path(options.folder) / f"{process}.jsonl").open("w")
        self._program = program.Program()
        for bits in sorted({case.bits for case in options.cases} & {8, 16, 32}):
            self._write("reference", bits=bits, hash=program.reference(bits, jax.local_device_count()))
        for order in ORDERS if options.native else ():
            with jaxina.collectives(False):
                self._write("native", order=order, hashes=self._hashes(order))

    def _go_through_cases(self, number: int, job: Any) -> None:
        import jaxina

        setting = self._options.settings[number]
        for place, case in enumerate(self._options.cases):
            if not setting.carries(case):
                continue
            before = job.statistics()["collectives"]
            with jaxina.errors.typed(), jaxina.collectives(bits=case.bits, bucket_bytes=case.bucket):
                hashes = self._hashes(case.order)
            carried = job.statistics()["collectives"] - before
            self._write("sum", setting=number, case=place, hashes=hashes, collectives=carried)
        self._write("setting", setting=number, statistics=job.statistics())

    def sums(self, order: str) -> list[Any]:
        """Runs the program. Returns each local device's results."""
        return self._program.run(order)

    def _hashes(self, order: str) -> list[str]:
        from jaxina.certificate import program

        return [program.hashed(sums) for sums in self.sums(order)]

    def _write(self, kind: str, **values: Any) -> None:
        print(json.dumps({"kind": kind, **values}), file=self._file, flush=True)


def main() -> None:
    if sys.argv[1] == "describe":
        print(json.dumps(describe()))
    else:
        Work(Options.from_text(sys.argv[1])).run()


if __name__ == "__main__":
    main()
