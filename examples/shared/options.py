"""The command-line options that mnist, vision and gpt share."""

from __future__ import annotations

import argparse
from pathlib import Path


def positive(text: str) -> int:
    """Reads an integer of at least 1: a `type` for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def add_common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collective", choices=["xla", "jaxina"], default="xla", help="what sums the gradients")
    parser.add_argument("--seed", type=int, default=0, help="of parameters, batches and all else that is random")
    parser.add_argument("--devices", type=positive, help="number of CPU devices of this process")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results and each step's loss to this file")
