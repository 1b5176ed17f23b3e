#!/usr/bin/env bash
# Usage: scripts/docs.sh VENV SITE. Writes the pages that are generated from code, then builds the documentation into the
# folder SITE. Every warning is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/$1/bin
site=$2

. scripts/python_packages.sh

install "$1" -q -r pyproject.toml --extra docs # without jaxina itself, which is installed
"$bin/python" scripts/configuration_page.py docs/configuration.md
"$bin/python" -m typer jaxina.cli.app utils docs --name jaxina --title "Command line" --output docs/command-line.md >/dev/null
rm -rf "$site" # a page that no longer exists must not stay
"$bin/python" -m sphinx -b html -j 2 -W --keep-going -n -q docs "$site"
echo "$site/index.html"
