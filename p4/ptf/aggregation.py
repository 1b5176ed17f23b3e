"""PTF tests of a switch with p4/tofino/jaxina.p4. README.md says how to run them."""

from ptf.packet import ARP, IP, UDP, Ether
from ptf.testutils import send_packet, verify_no_other_packets, verify_packet, verify_packets
from stations import DatagramJobTest, RoceJobTest, SwitchTest


class OneSum(DatagramJobTest):
    """All workers send their updates of a pass, and all get the sum."""

    def runTest(self):
        for epoch in range(3):  # both versions of the slot, and the first one again
            send_packet(self, 0, self.update(0, epoch))
            self.wait_for("updates", 2 * epoch + 1)
            verify_no_other_packets(self)
            send_packet(self, 1, self.update(1, epoch))
            for worker in range(self.WORKERS):
                verify_packet(self, self.result(worker, epoch), worker)
            verify_no_other_packets(self)


class Retransmission(DatagramJobTest):
    """A repeated update is not added again. Behind the last one, it brings the sum to its sender alone."""

    def runTest(self):
        send_packet(self, 0, self.update(0), count=2)
        self.wait_for("updates", 1)
        send_packet(self, 1, self.update(1))
        for worker in range(self.WORKERS):
            verify_packet(self, self.result(worker), worker)
        send_packet(self, 1, self.update(1))
        verify_packet(self, self.result(1), 1)
        verify_no_other_packets(self)


class WrongSecret(DatagramJobTest):
    """A packet that does not know the job's secret changes nothing, and gets no sum."""

    def runTest(self):
        send_packet(self, 0, self.update(0, secret=self.job.secret ^ 1, summed=[99] * self.words))
        self.wait_for("wrong_secret", 1)
        self.dataplane.flush()  # the small program says that it refuses the packet
        for worker in range(self.WORKERS):
            send_packet(self, worker, self.update(worker))
        for worker in range(self.WORKERS):
            verify_packet(self, self.result(worker), worker)
        verify_no_other_packets(self)


class RoceSum(RoceJobTest):
    """Updates and sums as RDMA writes. Each sum has the next sequence number of its queue pair."""

    def runTest(self):
        for epoch in range(5):  # all four places in the workers' memory, and the first one again
            for worker in range(self.WORKERS):
                send_packet(self, worker, self.write(worker, epoch))
            for worker in range(self.WORKERS):
                verify_packet(self, self.written(worker, epoch, number=epoch), worker)
        send_packet(self, 0, self.write(0, 4))
        verify_packet(self, self.written(0, 4, number=5), 0)
        verify_no_other_packets(self)


class Forwarding(SwitchTest):
    """Other traffic goes to the port of its station, and broadcasts to all ports but their own."""

    def runTest(self):
        (mac, ip), (to_mac, to_ip) = self.stations[0], self.stations[1]
        packet = Ether(dst=to_mac, src=mac) / IP(src=ip, dst=to_ip) / UDP(sport=1, dport=51001) / bytes(40)
        send_packet(self, 0, packet)
        verify_packet(self, packet, 1)
        request = Ether(dst="ff:ff:ff:ff:ff:ff", src=mac) / ARP(hwsrc=mac, psrc=ip, pdst=to_ip) / bytes(18)
        send_packet(self, 0, request)
        verify_packets(self, request, self.ports[1:])
        send_packet(self, 0, Ether(dst="02:4a:58:00:ff:ff", src=mac, type=0x88B5) / bytes(46))
        verify_no_other_packets(self)
