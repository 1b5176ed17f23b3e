"""Executes the notebooks: python notebooks/execute.py [NAME ...]

Each NAME.py (percent format: the source to edit) is run by Jupyter, and NAME.ipynb is written with its outputs, so that
figures can be read without running anything. Fails at the first cell that raises.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent
CELL_SECONDS = 600


def sources() -> list[Path]:
    return sorted(file for file in FOLDER.glob("*.py") if file.name != Path(__file__).name)


def execute(source: Path) -> Path:
    """Runs one notebook in the repository's root and writes it beside its source."""
    notebook = jupytext.read(source)
    NotebookClient(
        notebook, timeout=CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": str(FOLDER.parent)}}
    ).execute()
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # random otherwise: every execution would change every cell
        cell.metadata.pop("execution", None)  # when it ran
    notebook.metadata.get("language_info", {}).pop("version", None)
    target = source.with_suffix(".ipynb")
    nbformat.write(notebook, target)
    return target


def main() -> None:
    chosen = [FOLDER / f"{name}.py" for name in sys.argv[1:]] or sources()
    for source in chosen:
        print(execute(source), flush=True)


if __name__ == "__main__":
    main()
