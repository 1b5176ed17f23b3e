"""The stations around the switch, and a job whose workers they are.

Test parameters (`--test-params "name='value';..."`), with what they are if left out:

    control='127.0.0.1:51000'    the control service of `jaxina switch`
    switch_ip='198.18.0.1'       the address that workers send to
    switch_mac='02:4a:58:ff:ff:ff'
    network='198.18.64.0/18'     the station at port n has its address n + 1, and the MAC address 02:4a:58:00:00:00 + n
    words=64                     of a packet: 64, 128 or 256, as the switch's program has
"""

import ipaddress
import time

import ptf
from headers import DATAGRAM_PORT, RESULT, ROCE_PORT, Bth, Jaxina, Reth, datagram, exponent, udp, words
from ptf.base_tests import BaseTest
from ptf.mask import Mask
from ptf.packet import IP
from ptf.testutils import send_packet, test_params_get

from jaxina.control.client import SwitchClient
from jaxina.control.data_plane import QueuePairs

WORKER_PORT = 40000  # the workers' UDP port
_TIMEOUT = 60.0  # seconds
_LEARNS_WITHIN = 60.0
_AGAIN_AFTER = 0.5
_ROCE_PORT_OF_WORKERS, _MTU = 4791, 4096
_AHEAD = 2  # an epoch that no new slot has reached: such an update changes nothing


def packet_fields_checked(packet, *ignored):
    """Returns what a packet must look like, but for some fields: (layer, name)."""
    expected = Mask(packet)
    for layer, name in ignored:
        expected.set_do_not_care_packet(layer, name)
    return expected


class SwitchTest(BaseTest):
    """A switch whose ports are the interfaces of this test."""

    def setUp(self):
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        given = test_params_get()
        self.words = int(given.get("words", 64))
        self.switch = given.get("switch_mac", "02:4a:58:ff:ff:ff"), given.get("switch_ip", "198.18.0.1")
        network = ipaddress.ip_network(given.get("network", "198.18.64.0/18"))
        self.ports = sorted(port for _, port in ptf.config["port_map"])
        self.stations = {port: (f"02:4a:58:00:00:{port:02x}", str(network[port + 1])) for port in self.ports}
        self.client = SwitchClient(given.get("control", "127.0.0.1:51000"), _TIMEOUT)
        self.addCleanup(self.client.close)


class JobTest(SwitchTest):
    """A job of two workers, with one slot. Worker n is the station at port n."""

    WORKERS = 2
    EXPONENT = 100

    def setUp(self):
        super().setUp()
        shape = {"devices": self.WORKERS, "workers": self.WORKERS, "slots": 1}
        timeouts = {"join_timeout": _TIMEOUT, "heartbeat_timeout": _TIMEOUT}
        self.job = self.client.create_job(
            **shape, **timeouts, block_size=self.words, blocks_per_chunk=1, whole_chunks=True
        )
        session = self.client.join(
            self.job.job,
            self.job.secret,
            range(self.WORKERS),
            heartbeat_timeout=_TIMEOUT,
            statistics=dict,
            aborted=lambda code, message: None,
        )
        self.addCleanup(session.leave)

    def numbers(self, worker, epoch=0):
        return [1000 * (worker + 1) + 7 * epoch + (worker + 1) * i for i in range(self.words)]

    def sums(self, epoch=0):
        return [
            sum(each) for each in zip(*[self.numbers(worker, epoch) for worker in range(self.WORKERS)], strict=True)
        ]

    def counters(self):
        """Returns the job's counters, from a status that the switch has made after this call began."""
        told = self.client.status().uptime_s
        while (status := self.client.status()).uptime_s == told:
            time.sleep(0.01)
        (job,) = [job for job in status.jobs if job.job == self.job.job]
        return {name: number for name, number in {**job.counters, **job.rejected}.items() if number}

    def wait_for(self, name, number):
        """Waits until a counter has reached a number: then the switch has handled the packet that it counts."""
        deadline = time.monotonic() + _LEARNS_WITHIN
        while (now := self.counters().get(name, 0)) < number:
            assert time.monotonic() < deadline, f"{name} is {now}, not {number}, after {_LEARNS_WITHIN} s"
        assert now == number, f"{name} is {now}, not {number}"


class DatagramJobTest(JobTest):
    """Workers that send datagrams. The switch has heard from all of them when the test begins."""

    def setUp(self):
        super().setUp()
        for worker in range(self.WORKERS):
            self.introduce(worker)
        self.dataplane.flush()

    def introduce(self, worker):
        """Makes a worker's address known. A chip learns it from the worker's first packet, and drops that one."""
        before, deadline = self.counters().get("ahead", 0), time.monotonic() + _LEARNS_WITHIN
        while self.counters().get("ahead", 0) == before:
            assert time.monotonic() < deadline, f"the switch does not know worker {worker}"
            send_packet(self, worker, self.update(worker, epoch=_AHEAD, summed=()))
            time.sleep(_AGAIN_AFTER)

    def update(self, worker, epoch=0, summed=None, **changes):
        fields = {"job": self.job.job, "secret": self.job.secret, "worker": worker, "epoch": epoch, "fingerprint": 7}
        headers = udp(self.stations[worker], self.switch, WORKER_PORT, DATAGRAM_PORT)
        summed = self.numbers(worker, epoch) if summed is None else summed
        return datagram(headers, fields | changes, summed, self.EXPONENT + worker)

    def result(self, worker, epoch=0):
        """Returns what a worker must receive. A Tofino leaves IPv4's identification and life time as they came."""
        fields = {"job": self.job.job, "secret": self.job.secret, "worker": 0xFFFF, "epoch": epoch, "fingerprint": 7}
        headers = udp(self.switch, self.stations[worker], DATAGRAM_PORT, WORKER_PORT)
        made = datagram(headers, fields | {"kind": RESULT}, self.sums(epoch), self.EXPONENT + self.WORKERS - 1)
        return packet_fields_checked(made, (IP, "id"), (IP, "ttl"), (IP, "chksum"), (Jaxina, "crc32"))


class RoceJobTest(JobTest):
    """Workers with RDMA. Worker n's memory, key and queue pairs have numbers of its own."""

    def setUp(self):
        super().setUp()
        self.ours, self.theirs = [], []
        for worker in range(self.WORKERS):
            number = worker + 1
            queue_pairs = (0x1000 * number, 0x1000 * number + 1)  # of the slot, and of notices
            ours = QueuePairs(
                *(self.stations[worker][1], _ROCE_PORT_OF_WORKERS, _MTU, queue_pairs),
                *(0, 0x5EC0 + number, number << 36),
            )
            self.ours.append(ours)
            self.theirs.append(self.client.connect_queue_pairs(self.job.job, self.job.secret, worker, ours))

    def write(self, worker, epoch=0):
        """Returns a worker's update: a write that names the pass where an address would be."""
        switch = self.theirs[worker]
        address = epoch << 32 | 1 << 8  # the slot, between them, is 0; one exponent
        reth = Reth(address=address, rkey=switch.rkey, length=4 * self.words + 4, immediate=7)
        body = words(self.numbers(worker, epoch)) + exponent(self.EXPONENT + worker) + bytes(4)  # no ICRC
        headers = udp(self.stations[worker], self.switch, 0xC000, ROCE_PORT)
        return headers / Bth(qpn=switch.qpns[0], psn=epoch) / reth / body

    def written(self, worker, epoch=0, number=0):
        """Returns what a worker must receive: a write into its memory, with the sequence number that comes next."""
        ours, length = self.ours[worker], 4 * self.words + 4
        place = ours.memory + epoch % 4 * (1 << (length - 1).bit_length())
        reth = Reth(address=place, rkey=ours.rkey, length=length, immediate=7)
        body = words(self.sums(epoch)) + exponent(self.EXPONENT + self.WORKERS - 1) + bytes(4)
        headers = udp(self.switch, self.stations[worker], 0xC000, ROCE_PORT)
        psn = (self.theirs[worker].psn + number) % 2**24
        made = headers / Bth(qpn=ours.qpns[0], psn=psn) / reth / body
        expected = packet_fields_checked(made, (IP, "id"), (IP, "ttl"), (IP, "chksum"))
        expected.set_do_not_care(8 * (len(made) - 4), 32)  # the ICRC, which a Tofino does not write
        return expected
