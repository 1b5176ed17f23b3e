"""The layers of rdma_engine: a folder includes only lower folders, so there are no circles.

It also tests that each limit of a job is written in one place.
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
ENGINE = ROOT / "rdma_engine"

# From the lowest to the highest. Folders of one line do not include one another.
LAYERS = [
    ["base"],
    ["errors"],
    ["numerics"],
    ["wire"],
    ["encryption"],
    ["shape"],
    ["worker", "aggregator"],
    ["datagrams"],
    ["combiner", "messages", "net"],
    ["netreduce", "transport"],
    ["transport/embedded", "transport/udp", "transport/roce", "transport/rc"],
    ["transport/verbs"],
    ["switch", "sim", "engine"],
]
HEIGHT = {folder: height for height, folders in enumerate(LAYERS) for folder in folders}


def folder_of(path: pathlib.PurePath) -> str:
    parts = path.parts[:-1]
    return "/".join(parts) if parts else path.stem


def includes():
    """Yields (folder, file, included folder) for every include of one of the engine's own headers."""
    for file in sorted([*ENGINE.rglob("*.h"), *ENGINE.rglob("*.cc")]):
        name = file.relative_to(ENGINE)
        for included in re.findall(r'#include "rdma_engine/([^"]+)"', file.read_text()):
            yield folder_of(name), str(name), folder_of(pathlib.PurePath(included))


def test_every_folder_has_its_layer():
    assert {folder for folder, _, _ in includes()} <= HEIGHT.keys()


def test_no_folder_includes_one_above_it_or_beside_it():
    wrong = [
        f"{file} includes {included}/"
        for folder, file, included in includes()
        if included != folder and HEIGHT[included] >= HEIGHT[folder]
    ]
    assert not wrong, "\n".join(wrong)


def test_the_engine_knows_nothing_of_what_stands_above_it():
    for file in [*ENGINE.rglob("*.h"), *ENGINE.rglob("*.cc")]:
        outside = set(re.findall(r'#include "((?!rdma_engine/)[a-z_]+)/', file.read_text()))
        ours = outside & {folder.name for folder in ROOT.iterdir() if folder.is_dir()}
        assert not ours, f"{file.relative_to(ROOT)} includes {ours}"


# Each limit, and the one file that has it.
LIMITS = {
    r"kMaxWorkers = ": "rdma_engine/numerics/block_fixed_point.h",
    r"kMaxSlots = ": "rdma_engine/shape/job_shape.h",
    r"kM(?:ax|in)BlockSize = ": "rdma_engine/numerics/element_codec.h",
    r"kMaxBlocksPerChunk = ": "rdma_engine/wire/packet.h",
    r"kMaxPacketSize = ": "rdma_engine/wire/packet.h",
    r"kMaxPoolBytes = ": "rdma_engine/switch/pool_room.h",
    r"kMaxReason = ": "rdma_engine/datagrams/notices.h",
    r"MAX_(?:WORKERS|SLOTS|BLOCKS_PER_CHUNK|BLOCK_SIZE) = ": None,  # Python takes them from the native module
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_stands_in_one_place(limit):
    sources = [
        file
        for folder in ("rdma_engine", "xla_ffi", "jaxina", "cuda_kernels")
        for pattern in ("*.h", "*.cc", "*.py")
        for file in (ROOT / folder).rglob(pattern)
    ]
    found = {str(file.relative_to(ROOT)) for file in sources if re.search(rf"\b{limit}", file.read_text())}
    found.discard("jaxina/testbed/places.py")  # its limit is that of a testbed's workers, not of a job's
    assert found == ({LIMITS[limit]} if LIMITS[limit] else set())
