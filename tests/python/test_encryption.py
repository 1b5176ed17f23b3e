"""Encrypted packets: what somebody on the way reads and can change, and each way to ask for what cannot be."""

import os
import random
import selectors
import socket
import struct
import subprocess
import sys
import threading

import pytest
from certificates import Authority
from control_fakes import FakeDataPlane
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from patience import PATIENCE

from jaxina import config
from jaxina._native import JOB_KEY_BYTES, GroupConfig, SoftwareSwitch
from jaxina.control import control_pb2 as pb
from jaxina.control.client import SwitchClient
from jaxina.control.data_plane import QueuePairs
from jaxina.control.job_spec import JobSpec
from jaxina.control.membership import Membership
from jaxina.control.rendezvous import check_equal_settings
from jaxina.control.server import ControlServer
from jaxina.control.servers import Servers
from jaxina.control.switch_planes import SwitchPlanes
from jaxina.control.tls import tls_of
from jaxina.errors import InvalidArgumentError, JobRejectedError, MismatchError

YES = {"JAXINA_ENCRYPTION": "yes"}
NUMBER = 0x1A2B3C4D
BYTES = NUMBER.to_bytes(4, "big")
JOB = {"slots": 8, "block_size": 256, "blocks_per_chunk": 1, "join_timeout": 30, "heartbeat_timeout": 20}


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path, "authority")


class Middlebox:
    """Stands between the workers and one port of a switch. It reads all packets; some it damages or sends again.

    Args:
      port: the switch's.

    Attributes:
      port: where the workers send to.
      seen: all packets of the workers, as they came.
      damaged: how many packets went on with a flipped bit.
      replayed: how many older packets it has sent again.
    """

    def __init__(self, port):
        self._switch = ("127.0.0.1", port)
        self._random = random.Random(1)
        self._selector = selectors.DefaultSelector()
        self._front = self._socket(None)
        self._backs = {}
        self._stopping = threading.Event()
        self._stale = {}  # by the socket they left from: where they went, and what they were
        self.port = self._front.getsockname()[1]
        self.seen, self.damaged, self.replayed = [], 0, 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()

    def _socket(self, worker):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        made.bind(("127.0.0.1", 0))
        made.setblocking(False)
        self._selector.register(made, selectors.EVENT_READ, worker)
        return made

    def _run(self):
        while not self._stopping.is_set():
            for key, _ in self._selector.select(0.05):
                packet, source = key.fileobj.recvfrom(65536)
                if key.data is not None:
                    self._pass_on(packet, self._front, key.data)
                    continue
                self.seen.append(packet)
                if source not in self._backs:
                    self._backs[source] = self._socket(source)
                self._pass_on(packet, self._backs[source], self._switch)

    def _pass_on(self, packet, out, to):
        stale = self._stale.setdefault((out, to), [])
        if self._random.random() < 0.1:
            self.replayed += 1
            out.sendto(self._random.choice([*stale, packet]), to)
        stale.append(packet)
        if self._random.random() < 0.1:
            self.damaged += 1
            damaged = bytearray(packet)
            damaged[self._random.randrange(len(packet))] ^= 1 << self._random.randrange(8)
            packet = bytes(damaged)
        out.sendto(packet, to)


class BehindMiddlebox(SwitchPlanes):
    """A switch whose workers send to a middlebox. It remembers the keys of its jobs."""

    def __init__(self, switch, middlebox):
        super().__init__(switch, None)
        self.ports_of_box = [middlebox.port]
        self.keys = {}

    @property
    def ports(self):
        return self.ports_of_box

    def add_encrypted_job(self, job, secret, shape, key):
        super().add_encrypted_job(job, secret, shape, key)
        self.keys[job] = key


PROGRAM = f"""
import jax, jax.numpy as jnp, jaxina
with jaxina.init(join_timeout=50, timeout=50):
    total = jax.pmap(lambda x: jax.lax.psum(x, "w"), "w")
    for turn in range(3):
        assert (total(jnp.full((1, 60_000), {NUMBER} + turn, jnp.int32)) == 2 * ({NUMBER} + turn)).all()
    print("sums are exact")
"""


def run(authority, tmp_path, settings):
    """Two workers sum behind a middlebox. Returns it, the switch's statistics and the keys of the jobs."""
    script = tmp_path / "sum.py"
    script.write_text(PROGRAM)
    switch = SoftwareSwitch("127.0.0.1", 1, 0.0, 0)
    try:
        with Middlebox(switch.ports[0]) as middlebox:
            plane = BehindMiddlebox(switch, middlebox)
            tls = tls_of(config.resolve(authority.issue("switch")))
            with ControlServer(plane, "127.0.0.1:0", tls=tls) as server:
                ran = subprocess.run(
                    [sys.executable, "-m", "jaxina.cli", "run", "-n", "2", "--aggregator", "udp"]
                    + ["--switch", server.address, script],
                    env={**os.environ, **authority.issue(), **settings},
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE,
                )
            assert ran.returncode == 0 and "sums are exact" in ran.stdout, ran.stderr
            return middlebox, switch.statistics(), plane.keys
    finally:
        switch.stop()


def decrypted(packet, key):
    """Opens a worker's packet, as rdma_engine/encryption describes it."""
    _, _, role, job, sender, _, number = struct.unpack_from(">HBBIHHQ", packet)
    info = b"jaxina encrypted datagrams 1\0" + struct.pack(">IBHQ", job, role, sender, number >> 28)
    derived = HKDFExpand(hashes.SHA256(), 28, info).derive(key)
    nonce = (int.from_bytes(derived[16:], "big") ^ number).to_bytes(12, "big")
    return AESGCM(derived[:16]).decrypt(nonce, packet[20:], packet[:20])


def test_somebody_on_the_way_reads_nothing_and_changes_nothing(authority, tmp_path):
    middlebox, statistics, keys = run(authority, tmp_path, YES)
    assert len(middlebox.seen) > 200
    assert middlebox.damaged > 20
    assert middlebox.replayed > 20
    assert not any(BYTES in packet for packet in middlebox.seen)
    assert statistics["rejected"]["not_authentic"] > 0
    # What was captured is what was summed: with the keys, another implementation reads it.
    (key,) = keys.values()
    inside = [decrypted(packet, key) for packet in middlebox.seen]
    assert sum(BYTES in packet for packet in inside) > 50
    numbers = [packet[:20] for packet in middlebox.seen]
    assert len(set(numbers)) == len(numbers), "a nonce came twice"


def test_without_encryption_the_same_capture_shows_the_tensor(authority, tmp_path):
    middlebox, statistics, keys = run(authority, tmp_path, {})
    assert sum(BYTES in packet for packet in middlebox.seen) > 50
    assert not keys
    assert "not_authentic" not in statistics["rejected"]


def test_the_workers_own_servers_encrypt(authority, tmp_path):
    script = tmp_path / "sum.py"
    script.write_text(PROGRAM)
    ran = subprocess.run(
        [sys.executable, "-m", "jaxina.cli", "run", "-n", "2", "--aggregator", "direct", script],
        env={**os.environ, **authority.issue(), **YES},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.returncode == 0 and "sums are exact" in ran.stdout, ran.stderr


# ---- what cannot be


def checked(authority, **settings):
    config.check_used(config.resolve({**authority.issue(), **YES}, **settings))


@pytest.mark.parametrize("aggregator", ["udp", "direct", "embedded"])
def test_these_aggregators_encrypt_or_need_not(authority, aggregator):
    checked(authority, aggregator=aggregator)
    assert config.resolve(YES, aggregator=aggregator).encrypts == (aggregator != "embedded")


@pytest.mark.parametrize(
    "aggregator, why",
    [
        ("atp", "switches on the way add what they read"),
        ("roce", "RDMA devices could not decrypt"),
        ("verbs", "RDMA devices write what arrives"),
        ("netreduce", "take packets as they are"),
    ],
)
def test_the_other_aggregators_are_refused_with_the_reason(authority, aggregator, why):
    with pytest.raises(InvalidArgumentError, match=f"{aggregator} cannot encrypt: .*{why}.*Choose udp or direct"):
        checked(authority, aggregator=aggregator)


def test_dedicated_servers_are_refused(authority):
    with pytest.raises(InvalidArgumentError, match="JAXINA_SERVERS cannot encrypt yet"):
        checked(authority, aggregator="direct", servers="10.0.0.1:51000")


def test_without_tls_the_keys_would_travel_in_the_clear():
    with pytest.raises(InvalidArgumentError, match="needs TLS, or the keys would travel in the clear: set JAXINA_TLS_"):
        config.check_used(config.resolve(YES, aggregator="udp"))
    config.check_used(config.resolve(YES, aggregator="embedded"))  # it has no keys


def test_one_worker_wants_it_and_another_does_not(authority):
    one, other = (config.resolve({**authority.issue(), **own}, aggregator="udp").shared for own in (YES, {}))
    with pytest.raises(MismatchError, match="process 0 has encryption='yes' but process 1 has 'no'"):
        check_equal_settings(0, one, 1, other)


@pytest.mark.skipif(os.geteuid() != 0, reason="hides the library in a mount namespace, which needs root")
def test_a_host_without_the_library(authority):
    libraries = [
        line.split(" => ")[1]
        for line in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout.splitlines()
        if "libcrypto.so.3 " in line
    ]
    program = "from jaxina import _native; print(_native.encryption_availability()); _native.check_encryption()"
    hide = " && ".join(f"mount --bind /dev/null {os.path.realpath(library)}" for library in libraries)
    ran = subprocess.run(
        ["unshare", "--mount", "bash", "-c", f'{hide} && exec "$0" -c "$1"', sys.executable, program],
        capture_output=True,
        text=True,
    )
    if "unshare" in ran.stderr or "mount" in ran.stderr:
        pytest.skip(ran.stderr)
    assert "encryption needs OpenSSL 3, and this host has no libcrypto.so.3" in ran.stdout
    assert "InvalidArgumentError" in ran.stderr


def create(client, **options):
    return client.create_job(devices=2, workers=2, **JOB, **options)


def client_of(server, authority):
    return SwitchClient(server.address, 5, tls=tls_of(config.resolve(authority.issue("worker"))))


@pytest.fixture
def switch():
    made = SoftwareSwitch("127.0.0.1", 1, 0.0, 0)
    yield made
    made.stop()


def test_each_job_has_a_key_of_its_own_for_those_who_know_its_secret(authority, switch):
    plane = SwitchPlanes(switch, None)
    tls = tls_of(config.resolve(authority.issue("switch")))
    with ControlServer(plane, "127.0.0.1:0", tls=tls) as server, client_of(server, authority) as client:
        jobs = [create(client, encrypt=True) for _ in range(2)]
        keys = [client.key(job.job, job.secret) for job in jobs]
        assert [len(key) for key in keys] == [JOB_KEY_BYTES] * 2
        assert keys[0] != keys[1]
        assert client.key(jobs[0].job, jobs[0].secret) == keys[0]
        with pytest.raises(JobRejectedError, match="wrong secret"):
            client.key(jobs[0].job, jobs[0].secret + 1)
        clear = create(client)
        with pytest.raises(JobRejectedError, match="not encrypted, so it has no key"):
            client.key(clear.job, clear.secret)


def test_a_switch_without_tls_gives_out_no_keys(switch):
    with (
        ControlServer(SwitchPlanes(switch, None), "127.0.0.1:0") as server,
        SwitchClient(server.address, 5) as client,
        pytest.raises(
            InvalidArgumentError, match=r"does not use TLS, so the keys .* start it with JAXINA_TLS_AUTHORITY"
        ),
    ):
        create(client, encrypt=True)


def test_a_chip_cannot(authority):
    plane = FakeDataPlane()  # as the driver of a chip, it has no method for it
    tls = tls_of(config.resolve(authority.issue("switch")))
    with (
        ControlServer(plane, "127.0.0.1:0", tls=tls) as server,
        client_of(server, authority) as client,
        pytest.raises(InvalidArgumentError, match="this switch cannot encrypt: only the software switch can"),
    ):
        create(client, encrypt=True)
    assert not plane.jobs


def test_an_older_switch_does_not_know_of_it(authority, switch):
    tls = tls_of(config.resolve(authority.issue("switch")))
    with (
        ControlServer(SwitchPlanes(switch, None), "127.0.0.1:0", tls=tls) as server,
        client_of(server, authority) as client,
    ):
        ask = client._stub.CreateJob

        def as_older_ones_read_it(request, **options):
            known = pb.CreateJobRequest()
            known.CopyFrom(request)
            known.ClearField("encrypt")
            return ask(known, **options)

        client._stub.CreateJob = as_older_ones_read_it
        with pytest.raises(
            InvalidArgumentError, match="is older than this jaxina and cannot encrypt packets: start a newer"
        ):
            create(client, encrypt=True)


def test_rdma_does_not_join_an_encrypted_job(switch):
    plane = SwitchPlanes(switch, object())
    shape = config.resolve({}).shape(devices=2, workers=2)
    plane.add_encrypted_job(1, 2, shape, bytes(range(JOB_KEY_BYTES)))
    with pytest.raises(InvalidArgumentError, match="to be encrypted, and those of RDMA cannot be"):
        plane.connect_queue_pairs(1, 0, QueuePairs("10.0.0.9", 4791, 1024, (5,), 8, 9, 0))
    with pytest.raises(InvalidArgumentError, match="a job's key has 32 bytes, not 3"):
        plane.add_encrypted_job(2, 2, shape, b"key")


def test_keys_are_never_printed(switch):
    shape = config.resolve({}).shape(devices=2, workers=2)
    group = GroupConfig(shape=shape, worker=0, local=[0], job=1, secret=2)
    group.use_udp([("127.0.0.1", 1)], key=bytes(range(JOB_KEY_BYTES)))
    assert group.transport["encrypted"] is True
    assert not any(isinstance(value, bytes) for value in group.transport.values())
    job = Membership().create(JobSpec(shape, 30, 20, encrypt=True), "127.0.0.1", 0.0)
    assert len(job.key) == JOB_KEY_BYTES
    assert repr(job.key) not in repr(job)
    servers = Servers(key=job.key)
    assert repr(job.key) not in repr(servers)
