"""Sphinx's configuration of the documentation site. `make docs` builds it into build/site."""

from __future__ import annotations

import importlib.metadata
import re

import numpy.typing
from sphinx.application import Sphinx

project = "jaxina"
release = version = importlib.metadata.version("jaxina")
html_title = f"jaxina {release}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["figures", "notebooks/*.py"]

# Pages. The notebooks are stored with their outputs (`make notebooks`), so the site does not execute them.
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

# API reference. A single backtick in a docstring is a Python object where one exists, else plain code.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autosummary_generate = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# NumPy's ArrayLike is a union of many types. The pages show its name instead: annotations are read after this line.
numpy.typing.ArrayLike = type("ArrayLike", (), {"__module__": "numpy.typing"})

# Every name that starts with "jaxina." must exist. Names of other libraries cannot be checked without a network.
nitpicky = True
nitpick_ignore_regex = [
    (r"py:.*", r"(?!jaxina(\.\w+)+$).*"),
    (r"py:class", r"jaxina\.elastic\.(sums\.Tree|training\.(State|Result))"),  # type variables have no entry
]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
pygments_style = "friendly"


# Links to pages beside docs/ work where the repository is read. In the site docs/notebooks and docs/results, which are
# symbolic links, hold the same pages. Sphinx resolves symbolic links in paths, so the links must name documents.
_BESIDE = re.compile(r"\[([^\]]+)\]\(\.\./(?:experiments/)?(results|notebooks)/([\w/]+)\.(?:md|ipynb)\)")
# The site does not have the other pages beside docs/, such as SECURITY.md: of a link to one, the text is left.
_ELSEWHERE = re.compile(r"\[([^\]]+)\]\(\.\./[\w/]+\.md(?:#[\w-]+)?\)")


def _link_to_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = _ELSEWHERE.sub(r"\1", _BESIDE.sub(r"{doc}`\1 </\2/\3>`", source[0]))


def setup(app: Sphinx) -> None:
    app.connect("source-read", _link_to_pages)
