"""Every link of README.md and of the pages beside it leads to a file, and to a heading in it.

The build of the docs checks the links in docs/.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md")


def links(page: str) -> list[str]:
    """The links of a page that do not lead to another host, each once."""
    return sorted(set(re.findall(r"\]\((?!https?:)([^)\s]+)\)", (ROOT / page).read_text(encoding="utf-8"))))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_there_are_links():
    assert len(links("README.md")) > 20
    assert links("SECURITY.md") and links("CONTRIBUTING.md")


@pytest.mark.parametrize("page, link", [(page, link) for page in PAGES for link in links(page)])
def test_link_leads_somewhere(page, link):
    path, _, anchor = link.partition("#")
    target = ROOT / (path or page)
    assert target.exists()
    assert not anchor or anchor in anchors(target)
