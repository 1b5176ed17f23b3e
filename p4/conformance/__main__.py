"""Runs the vectors against a device: `python -m conformance` in p4/."""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from conformance import random_combiner, random_vectors, vector
from conformance.devices import ABILITIES, TOFINO
from conformance.devices.combiner import CombinerDevice
from conformance.devices.interfaces import InterfaceLink
from conformance.devices.links import Link, SocketLink
from conformance.devices.program import ProgramDevice
from conformance.generate import ATP, FOLDER, SIZES, WORDS
from conformance.runner import Device, run
from conformance.vector import Vector


def main() -> int:
    arguments = _arguments()
    device = _device(arguments)
    failed = passed = lacking = packets = 0
    began = time.monotonic()
    try:
        for name, read in _vectors(arguments, device):
            outcome = run(read(), device)
            failed += bool(outcome.failures)
            lacking += bool(outcome.lacking)
            passed += not (outcome.failures or outcome.lacking)
            packets += outcome.packets
            if not arguments.quiet or outcome.failures:
                print(f"{name}: {outcome.text}", flush=True)
            for failure in outcome.failures[: arguments.show]:
                print("  " + failure.replace("\n", "\n  "))
    finally:
        device.close()
    seconds = time.monotonic() - began
    print(
        f"{passed} vectors passed, {failed} failed, {lacking} not run, of {device.name}: "
        f"{packets} packets sent, {seconds:.1f} s"
    )
    if arguments.must_fail:
        return 0 if failed else 1
    return 1 if failed or not passed else 0


def _vectors(arguments: argparse.Namespace, device: Device) -> Iterator[tuple[str, Callable[[], Vector]]]:
    """Yields names, and functions that return the vectors."""
    if arguments.random and "combine" in device.abilities:
        chip = "counters" not in device.abilities
        for seed in range(arguments.seed, arguments.seed + arguments.random):
            for entries in (None,) if chip else (1, 2, None):
                made = functools.partial(random_combiner.vector, WORDS["one-pipe"], seed, entries, chip)
                yield f"random_{entries or 'many'}_{seed}", made
        return
    if arguments.random:
        for words in sorted(device.block_sizes & {arguments.size or words for words in SIZES}):
            for seed in range(arguments.seed, arguments.seed + arguments.random):
                for rdma in (False, True):
                    name = f"{words}/random_{'rdma' if rdma else 'udp'}_{seed}"
                    yield name, functools.partial(random_vectors.vector, words, rdma, seed)
        return
    folder = FOLDER / ATP if "combine" in device.abilities else FOLDER
    for path in sorted(folder.glob(f"{arguments.size or '*'}/*.txt")):
        if not arguments.vectors or path.stem in arguments.vectors:
            yield f"{path.parent.name}/{path.stem}", functools.partial(vector.read, path)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description="Runs the conformance vectors against a device."
    )
    parser.add_argument("vectors", nargs="*", metavar="VECTOR", help="names; left out, all")
    device = parser.add_mutually_exclusive_group(required=True)
    device.add_argument("--program", metavar="PATH", help="a conformance_device")
    device.add_argument("--combiner", metavar="PATH", help="a combiner_device")
    device.add_argument(
        "--interpret",
        metavar="SIZE",
        choices=(*WORDS, ATP),
        help="p4/tofino in an interpreter, in this size; atp is the program that combines updates",
    )
    device.add_argument("--control", metavar="HOST:PORT", help="a switch's control service")
    device.add_argument("--model", metavar="HARNESS", help="the compiled program in the chip's model; needs --compiled")
    parser.add_argument(
        "--compiled",
        metavar="FOLDER",
        help="with --model: where the compiler has put the program, named after its size, such as ../build/p4/one-pipe",
    )
    parser.add_argument(
        "--interfaces",
        metavar="NAME,...",
        help="with --control: send raw frames on these; left out, UDP sockets of loopback",
    )
    parser.add_argument("--address", metavar="IP", help="with --control: where packets go, if not to its host")
    parser.add_argument(
        "--network",
        default="198.18.64.0/18",
        help="with --interfaces: where the workers' addresses are taken from",
    )
    parser.add_argument(
        "--tofino",
        type=int,
        choices=SIZES,
        metavar="SIZE",
        help="with --control: the switch is p4/tofino in this size",
    )
    parser.add_argument("--without", metavar="ABILITY,...", default="", help="what else it lacks: see README.md")
    parser.add_argument(
        "--define",
        metavar="NAME",
        action="append",
        default=[],
        help="with --interpret: for the preprocessor, such as MUTANT_NO_EPOCH_CHECK",
    )
    parser.add_argument(
        "--random", type=int, metavar="N", help="instead of the vectors: N of random packets, and N of random messages"
    )
    parser.add_argument("--seed", type=int, default=1, help="with --random: of the first; the next has the next")
    parser.add_argument("--size", type=int, choices=SIZES, help="words of a block; left out, all")
    parser.add_argument("--show", type=int, default=3, help="differences to print of each vector")
    parser.add_argument("--must-fail", action="store_true", help="succeed if a vector fails: for a planted bug")
    parser.add_argument("--quiet", action="store_true", help="name failures only")
    return parser.parse_args()


def _device(arguments: argparse.Namespace) -> Device:
    if arguments.program:
        return ProgramDevice(arguments.program)
    if arguments.combiner:
        return CombinerDevice(arguments.combiner)
    if arguments.interpret == ATP:
        from conformance.devices.atp import InterpretedAtp
        from conformance.devices.interpreter import text_of

        return InterpretedAtp(text_of(ATP, arguments.define))
    if arguments.interpret:
        from conformance.devices.interpreter import InterpretedDevice, text_of

        size = arguments.interpret
        return InterpretedDevice(size, text_of(size, arguments.define))
    if arguments.model:
        from conformance.devices.model import ModelDevice

        folder = Path(arguments.compiled or "").resolve()
        if folder.name == ATP:
            from conformance.devices.atp import ModelAtp

            return ModelAtp(Path(arguments.model).resolve(), folder)
        if folder.name not in WORDS:
            sys.exit(f"--compiled must name a folder {', '.join((*WORDS, ATP))}")
        return ModelDevice(folder.name, Path(arguments.model).resolve(), folder)
    from conformance.devices.switch import SwitchDevice

    host = arguments.control.rpartition(":")[0]
    link: Link = SocketLink()
    if arguments.interfaces:
        link = InterfaceLink(arguments.interfaces.split(","), arguments.network)
    size = arguments.tofino or arguments.size
    abilities = TOFINO[arguments.tofino] if arguments.tofino else ABILITIES
    abilities -= set(arguments.without.split(","))
    sizes = {size} if size else set(SIZES)
    return SwitchDevice(arguments.control, arguments.address or host, link, abilities, sizes)


if __name__ == "__main__":
    sys.exit(main())
