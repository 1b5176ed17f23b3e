// Writes the addresses of the station that a packet goes to, or each copy of a result. controller/atp_ways.py fills the
// table.
#ifndef JAXINA_STATIONS_P4
#define JAXINA_STATIONS_P4

#include "to_sender.p4"

control Stations(inout egress_headers_t hdr, inout egress_metadata_t md, in egress_intrinsic_metadata_t eg_intr_md) {
    ToSender() to_sender;

    // A station knows this switch by the address that the packet was sent to.
    action to_udp(bit<48> mac, bit<32> ip, bit<16> port) {
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = mac;
        hdr.ipv4.source = hdr.ipv4.destination;
        hdr.ipv4.destination = ip;
        hdr.udp.source = hdr.udp.destination;
        hdr.udp.destination = port;
        hdr.udp.checksum = 0;
    }
    table stations {
        key = { md.rid : exact @name("rid"); }
        actions = { to_udp; @defaultonly NoAction; }
        const default_action = NoAction;
        size = STATIONS_OF_JOBS;
    }

    action one_of_many() { md.rid = eg_intr_md.egress_rid[13:0]; }
    action alone() { md.rid = hdr.passage.rid; }

    apply {
        if (hdr.passage.route == TO_SENDER) {
            to_sender.apply(hdr);
        } else if (hdr.passage.route == TO_COPIES) {
            one_of_many();
        } else if (hdr.passage.route == TO_STATION) {
            alone();
        }
        if (hdr.passage.route == TO_COPIES || hdr.passage.route == TO_STATION) {
            stations.apply();
        }
    }
}

#endif
