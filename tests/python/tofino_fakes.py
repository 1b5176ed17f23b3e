"""The controller of a Tofino switch without a chip, and fake processes that join its jobs."""

from __future__ import annotations

import itertools

from control_fakes import FakeEngine, FakeStore, FakeTopology, eventually, in_threads

from jaxina import config
from jaxina.control.client import SwitchClient
from jaxina.control.connector import Connector
from jaxina.control.server import ControlServer
from jaxina.control.switch_jobs import SwitchAggregators
from jaxina.controller import chip
from jaxina.controller.data_plane import TofinoPlane
from jaxina.controller.dry_run import DryRun
from jaxina.controller.tables import Digest

BUSY = 45  # seconds; generous, because a busy machine may need long for what usually takes no time


def soon(condition):
    return eventually(condition, timeout=BUSY)


CHIP = """
size = "{size}"
address = "198.18.0.1"
worker_rate = 0.1

[[port]]
number = 132
fec = "rs"
[[port]]
number = 4
speed = 25
vlan = 100
priority = 3

[[host]]
ip = "198.18.1.1"
mac = "02:00:00:00:01:01"
port = 132
[[host]]
ip = "198.18.1.2"
mac = "02:00:00:00:01:02"
port = 4
"""
MACS = [0x020000000101, 0x020000000102]
IPS = [0xC6120101, 0xC6120102]
PORTS = [132, 4]


class Switch:
    """The controller behind its control service."""

    def __init__(self, folder, size="one-pipe"):
        file = folder / "chip.toml"
        file.write_text(CHIP.format(size=size))
        self.tables = DryRun()
        numbers = itertools.count(0x1000)
        self.plane = TofinoPlane(self.tables, chip.read(file), lambda bits: next(numbers))
        self.server = ControlServer(self.plane, "127.0.0.1:0", ask_every=0)
        self.plane.ended = self.server.end_job
        self.client = SwitchClient(self.server.address, BUSY)

    def close(self):
        self.client.close()
        self.server.stop()
        self.plane.stop()

    def new_writes(self):
        """Returns the writes since the last call, one line each."""
        lines = [str(write) for write in self.tables.writes]
        self.tables.writes.clear()
        return lines

    def create(self, **sizes):
        sizes = {"workers": 2, "slots": 2, "block_size": 64, "blocks_per_chunk": 1, **sizes}
        sizes.setdefault("devices", sizes["workers"])
        return self.client.create_job(join_timeout=30, heartbeat_timeout=30, **sizes)

    def create_joined(self, **sizes):
        """Creates a job and lets all of its workers join in one process."""
        grant = self.create(**sizes)
        self._join(grant, range(sizes.get("workers", 2)))
        return grant

    def end(self, grant):
        """Ends a job of two workers that nobody has joined yet: the workers join and leave."""
        self._join(grant, range(2)).leave()
        assert soon(lambda: grant.job not in self.plane._pool.jobs)

    def _join(self, grant, ranks):
        return self.client.join(grant.job, grant.secret, ranks, heartbeat_timeout=30, statistics=dict, aborted=print)

    def hears(self, index, worker):
        """Sends the digest with which the P4 program reports the first packet of a UDP worker."""
        fields = {
            "rid": index << 5 | worker,
            "mac": MACS[worker],
            "ip": IPS[worker],
            "port": 40000 + worker,
            "ingress_port": PORTS[worker],
        }
        self.tables.digests.put(Digest("heard", fields))

    def matches(self):
        """Returns the entries of the match tables, without registers and counters, which keep what was written."""
        return {name for name in self.tables.held if not str(name[1][0]).endswith(("INDEX", "L2_XID"))}


class Process:
    def __init__(self, switch, store, number, processes, **settings):
        settings = {"slots": 2, "block_size": 64, "blocks_per_chunk": 1, "join_timeout": BUSY, **settings}
        configuration = config.resolve({}, aggregator="udp", switch=switch.server.address, **settings)
        self.engine = FakeEngine()
        self.aggregators = SwitchAggregators(configuration, self.engine.abort, self.engine.statistics)
        topology = FakeTopology(number, processes)
        self.connector = Connector(configuration, topology, self.aggregators, lambda: store, set, 1)


def join(switch, processes=2, **settings):
    """Lets processes join one job. Returns the processes, and for each what its connector returned or raised."""
    store = FakeStore()
    made = [Process(switch, store, p, processes, **settings) for p in range(processes)]
    group = list(range(processes))
    calls = [lambda p=p: p.connector(group) for p in made]
    return made, in_threads(*calls, timeout=BUSY)
