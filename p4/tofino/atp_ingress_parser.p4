// Parses updates and sums of groups, replies of servers, and packets that come round again. If the lengths in an update
// contradict each other, `well_formed` stays 0. An update that is neither a whole chunk nor without words is not `whole`: it
// is sent on as it came. What follows the last parsed header stays in the packet as it is.
#ifndef JAXINA_ATP_INGRESS_PARSER_P4
#define JAXINA_ATP_INGRESS_PARSER_P4

parser IngressParser(packet_in packet,
                     out ingress_headers_t hdr,
                     out ingress_metadata_t md,
                     out ingress_intrinsic_metadata_t ig_intr_md) {
    value_set<bit<32>>(4) switch_addresses;  // the IPv4 addresses that workers speak to
    value_set<PortId_t>(LOOPBACK_PORTS) loopback_ports;  // front-panel ports in loopback, besides the recirculation ports

    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        // The chip does not clear metadata. These fields may be read before anything else has written them.
        md.kind = PLAIN;
        md.well_formed = 0;
        md.admitted = 0;
        md.counts = 0;
        md.whole = 0;
        md.passes = 0;
        md.refusal = 0;
        md.job_index = 0;
        md.now = ig_intr_md.ingress_mac_tstamp[47:16];
        md.known = 0;
        md.may_claim = 0;
        md.owned = 0;
        md.opened = 0;
        md.contributed = 0;
        md.exponent = 0;
        md.mark = 0;
        md.reason = 0;
        md.goes_on = 0;
        md.way = NOWHERE;
        md.recirculates = 0;
        transition select(ig_intr_md.ingress_port) {
            68 &&& 0x07f: parse_passage;  // the recirculation port of every pipe
            loopback_ports: parse_passage;
            default: parse_fresh;
        }
    }

    // --- Packets from a station, and packets that another pipe has handed over unchanged (step 0) ---

#include "fresh_packets.p4"
    // Each state that follows stands for one UDP length, and checks that the rest of the packet agrees with it. Lengths
    // below 44 have no room for a header.
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.length) {
            UDP_EMPTY: parse_magic_empty;
            UDP_EXPONENT: parse_magic_exponent;
            UDP_WORDS: parse_magic_words;
            UDP_BOTH: parse_magic_both;
            0x0000 &&& 0xffe0: parse_short;
            0x0020 &&& 0xfff8: parse_short;
            0x0028 &&& 0xfffc: parse_short;
            default: parse_other_magic;
        }
    }
    state parse_short {
        transition select(packet.lookahead<bit<32>>()) {
            MAGIC_VERSION &&& 0xffffff00: parse_malformed;
            default: accept;
        }
    }

    // Parses a datagram of one length. An update or a sum with so many words and exponents goes on with `next`.
#define DATAGRAM(shape, word_count, exponent_count, next) \
    state parse_magic_##shape { \
        transition select(packet.lookahead<bit<32>>()) { \
            MAGIC_VERSION_UPDATE: parse_jaxina_##shape; \
            MAGIC_VERSION_COMBINED: parse_jaxina_##shape; \
            MAGIC_VERSION_RESULT: parse_result; \
            MAGIC_VERSION &&& 0xffffff00: parse_reply; \
            default: accept; \
        } \
    } \
    state parse_jaxina_##shape { \
        packet.extract(hdr.jaxina); \
        md.kind = UDP_UPDATE; \
        transition select(hdr.jaxina.words, hdr.jaxina.exponents) { \
            (word_count, exponent_count): next; \
            default: accept; \
        } \
    }
    DATAGRAM(empty, 0, 0, complete)
    DATAGRAM(exponent, 0, 1, parse_exponent)
    DATAGRAM(words, WORDS, 0, parse_words)
    DATAGRAM(both, WORDS, 1, parse_exponent_and_words)

    // Replies of servers may have any length, because they are sent on as they come.
    state parse_other_magic {
        transition select(packet.lookahead<bit<32>>()) {
            MAGIC_VERSION_UPDATE: parse_other_size;
            MAGIC_VERSION_COMBINED: parse_other_size;
            MAGIC_VERSION_RESULT: parse_result;
            MAGIC_VERSION &&& 0xffffff00: parse_reply;
            default: accept;
        }
    }
    state parse_malformed {
        md.kind = UDP_UPDATE;
        transition accept;
    }
    state parse_other_size {
        packet.extract(hdr.jaxina);
        md.kind = UDP_UPDATE;
        transition well_formed;
    }
    state parse_result {
        packet.extract(hdr.jaxina);
        md.kind = RESULT_PASSING;
        transition well_formed;
    }
    state parse_reply {
        packet.extract(hdr.jaxina);
        md.kind = REPLY_PASSING;
        transition well_formed;
    }
    state parse_exponent {
        packet.extract(hdr.exponent);
        md.exponent = hdr.exponent.value;
        transition complete;
    }
    state parse_exponent_and_words {
        packet.extract(hdr.exponent);
        md.exponent = hdr.exponent.value;
        transition parse_words;
    }
    state parse_words {
        packet.extract(hdr.low);
        packet.extract(hdr.high);
        transition complete;
    }
    state complete {
        md.whole = 1;
        transition well_formed;
    }
    state well_formed {
        md.counts = 1;
        md.well_formed = 1;
        transition accept;
    }

    // --- Packets that come round ---

    state parse_passage {
        packet.extract(hdr.passage);
        transition select(hdr.passage.step) {
            0: parse_fresh;
            STEP_READING: parse_reading;
            default: parse_remembering;
        }
    }
    state parse_reading {
        md.kind = READING_LOW;
        md.contributed = 1;
        transition parse_again;
    }
    state parse_remembering {
        md.kind = REMEMBERING;
        transition parse_again;
    }
    state parse_again {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        packet.extract(hdr.jaxina);
        transition select(hdr.jaxina.exponents) {
            1: parse_exponent_again;
            default: accept;
        }
    }
    state parse_exponent_again {
        packet.extract(hdr.exponent);
        transition accept;
    }
}

struct heard_t {
    bit<14> rid;
    bit<48> mac;
    bit<32> ip;
    bit<16> port;
    PortId_t ingress_port;
}

const bit<3> DIGEST_HEARD = 1;

control IngressDeparser(packet_out packet,
                        inout ingress_headers_t hdr,
                        in ingress_metadata_t md,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    Digest<heard_t>(DIGEST_HEARD) heard;

    apply {
        if (ig_dprsr_md.digest_type == DIGEST_HEARD) {
            heard.pack({hdr.passage.rid, hdr.ethernet.source, hdr.ipv4.source, hdr.udp.source, hdr.passage.port});
        }
        packet.emit(hdr);
    }
}

#endif
