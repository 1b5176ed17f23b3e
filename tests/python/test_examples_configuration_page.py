"""docs/configuration.md says what jaxina/config/settings.py declares."""

from __future__ import annotations

import runpy
from pathlib import Path

from jaxina import config

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_current() -> None:
    page = runpy.run_path(str(ROOT / "scripts" / "configuration_page.py"))["page"]()
    assert all(f"`{config.variable(field.name)}`" in page for field in config.fields())
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == page, "run `make docs`"
