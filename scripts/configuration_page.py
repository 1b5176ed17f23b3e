"""Writes docs/configuration.md from jaxina/config/settings.py: python scripts/configuration_page.py FILE."""

from __future__ import annotations

import sys
from pathlib import Path

from jaxina import config

HEAD = """\
# Configuration

`make docs` writes this page from `jaxina/config/settings.py`. A test fails if the page is not current.

A value comes from the argument of `jaxina.init` or the option of the command. If there is none, it comes from the
variable, and otherwise from the default. All processes of a job must agree on the aggregator, the switch, the slots and
the block sizes. jaxina compares these when the job starts. `jaxina info` shows every setting's value and where it came
from; `jaxina info SETTING` explains one.

| variable | default | allowed | meaning |
|---|---|---|---|
"""


def page() -> str:
    rows = []
    for setting in config.fields():
        kind, doc = setting.metadata["kind"], setting.metadata["doc"]
        cells = (
            f"`{config.variable(setting.name)}`",
            config.default_text(setting),
            kind.allowed,
            doc,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
