"""The P4 program in the interpreter, as a chip of its own: a process that outlives its controllers.

    python -m conformance.chip_process --interpret SIZE --address IP --tables PATH          # in p4/
    PYTHONPATH=p4/conformance/sde jaxina switch --backend tofino --chip chip.toml --bfrt PATH --bind IP:PORT

PATH is a socket, by which controllers reach the chip's tables. The first line of output says that it is there.
Workers on this host send to IP, an address of this host, which `chip.toml` and `--bind` name, too. chip.toml also names
the chip's ports 0, 5, 128 and 300, at which the workers are, in turn. Ports 5 and 300 have 802.1Q tags: `TAGS` in
`devices/interpreter.py`.
"""

from __future__ import annotations

import argparse
import random
import sys

from interpreter.controller_tables import ChipTables
from interpreter.program import Program

from conformance.devices.interpreter import text_of
from conformance.generate import WORDS
from conformance.table_server import TableServer
from conformance.wire import Wire, host_at
from jaxina.controller.chip import SIZES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interpret", metavar="SIZE", choices=tuple(WORDS), required=True, help="the program's size")
    parser.add_argument("--address", metavar="IP", required=True, help="IPv4 address that workers send to")
    parser.add_argument("--tables", metavar="PATH", required=True, help="socket for controllers, which must not exist")
    parser.add_argument(
        "--loss", metavar="SHARE", type=float, default=0.0, help="of the packets that the chip loses between its passes"
    )
    options = parser.parse_args()
    tables = ChipTables(Program(text_of(options.interpret)), SIZES[options.interpret].pool_pipe)
    chance = random.Random(0)
    tables.chip.loses = lambda copy: chance.random() < options.loss
    wire = Wire(tables, host_at(options.address))
    TableServer(tables, options.tables)
    print(f"tables at {options.tables}", flush=True)
    while True:
        wire.step()


if __name__ == "__main__":
    sys.exit(main())
