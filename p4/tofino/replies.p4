// Writes the worker's addresses into every copy of a result. A RoCE worker's copy becomes a write into the worker's
// memory. controller/replies.py fills the tables.
#ifndef JAXINA_REPLIES_P4
#define JAXINA_REPLIES_P4

#include "sequence_number.p4"
#include "to_sender.p4"

// A worker's memory has four places for the results of a slot (MessageLayout::kPlaces). Their distance is the message's
// size rounded up to a power of two: 512, 1024 or 2048 bytes. PLACE_BITS are the bits of an address that number the place.
#if PIPES == 1
#define PLACE_BITS 10:9
#elif PIPES == 2
#define PLACE_BITS 11:10
#else
#define PLACE_BITS 12:11
#endif

control Replies(inout egress_headers_t hdr, inout egress_metadata_t md, in egress_intrinsic_metadata_t eg_intr_md) {
    SequenceNumber() sequence_number;
    ToSender() to_sender;

    // The packet is an update, which was sent to the switch. So its destination becomes the reply's source.
    action come_from_switch() {
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ipv4.source = hdr.ipv4.destination;
        hdr.udp.checksum = 0;
    }
    action to_udp(bit<48> mac, bit<32> ip, bit<16> port) {
        come_from_switch();
        hdr.ethernet.destination = mac;
        hdr.ipv4.destination = ip;
        hdr.udp.source = hdr.udp.destination;
        hdr.udp.destination = port;
    }
    action to_roce(bit<48> mac, bit<32> ip, bit<16> port, bit<32> rkey) {
        come_from_switch();
        hdr.ethernet.destination = mac;
        hdr.ipv4.destination = ip;
        hdr.udp.destination = port;
        hdr.reth.rkey = rkey;
    }
    table workers {
        key = { md.rid : exact @name("rid"); }
        actions = { to_udp; to_roce; @defaultonly NoAction; }
        const default_action = NoAction;
        size = REPLICAS;
    }

    action to_place(bit<24> qpn, bit<32> address_high, bit<32> address_low) {
        hdr.bth.qpn = qpn;
        hdr.reth.address_high = address_high;
        hdr.reth.address_low = address_low;
    }
    table queues {
        key = {
            hdr.passage.slot_index[9:0] : exact @name("slot_index");
            md.rid[4:0] : exact @name("worker");
        }
        actions = { to_place; @defaultonly NoAction; }
        const default_action = NoAction;
        size = STAMPS;
    }

    action one_of_many() { md.rid = eg_intr_md.egress_rid[12:0]; }
    action alone() { md.rid = hdr.passage.rid; }

    apply {
        if (hdr.passage.route == TO_SENDER) {
            to_sender.apply(hdr);
        } else if (hdr.passage.route == TO_WORKER) {
            md.place = hdr.reth.address_high[1:0];  // the epoch's lowest bits
            if (hdr.passage.outcome == RESULT) {
                one_of_many();
            } else {
                alone();
            }
            workers.apply();
            if (hdr.bth.isValid()) {
                queues.apply();
                hdr.reth.address_low[PLACE_BITS] = md.place;
                sequence_number.apply(hdr, md);
            }
        }
    }
}

#endif
