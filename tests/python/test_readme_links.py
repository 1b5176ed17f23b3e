"""Every link of README.md leads to a file, and to a heading in it. The build of the docs checks the links in docs/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINKS = sorted(set(re.findall(r"\]\((?!https?:)([^)\s]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_there_are_links():
    assert len(LINKS) > 20


@pytest.mark.parametrize("link", LINKS)
def test_link_leads_somewhere(link):
    path, _, anchor = link.partition("#")
    target = ROOT / path
    assert target.exists()
    assert not anchor or anchor in anchors(target)
