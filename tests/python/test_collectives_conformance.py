"""A quick part of the conformance table. benchmarks/jax/conformance.py makes the whole table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import jax
import numpy as np
import pytest
from eight_devices import mesh

import jaxina

SOURCE = Path(__file__).parents[2] / "benchmarks" / "jax" / "conformance_cases.py"

pytestmark = pytest.mark.usefixtures("job")


@pytest.fixture(scope="module")
def cases() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_cases", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("vma", [True, False], ids=["vma", "no_vma"])
def test_cells_of_the_table(cases: ModuleType, vma: bool):
    operations = ("psum", "psum over a", "groups", "cond", "gradient")
    with jax.enable_x64(True), jaxina.collectives(True):
        table = cases.table(mesh(4, 2, names=cases.AXES), vma, operations, cases.TYPES)
    cells = {(row, dtype): cell for row, by_type in table.items() for dtype, cell in by_type.items()}
    assert len(cells) >= 50
    assert [place for place, cell in cells.items() if cell.startswith("FAIL")] == []


def test_a_wrong_sum_is_not_taken_for_a_right_one(cases: ModuleType):
    x = cases.operand("float32", 2, True)
    total = x.reshape(2, cases.ROWS, cases.COLUMNS).sum(0)[None]
    assert float(cases.compare(total, total, x, 2, 1.0)) == 0
    wrong = total.copy()
    wrong[0, 1, 2] += 4 * cases.bound(x, 2)[1, 2]
    assert cases.compare(wrong, total, x, 2, 1.0).startswith("FAIL")
    assert cases.compare(wrong, total, None, 2, 1.0).startswith("FAIL")
    assert cases.compare(total.astype(np.float64), total, x, 2, 1.0).startswith("FAIL")
