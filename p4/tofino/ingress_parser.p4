// Parses updates (jaxina's own datagrams and RoCEv2 writes), and packets that come round again. If the lengths in an
// update contradict each other, `well_formed` stays 0. What follows the last parsed header stays in the packet as it
// is.
#ifndef JAXINA_INGRESS_PARSER_P4
#define JAXINA_INGRESS_PARSER_P4

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
        md.refusal = 0;
        md.job_index = 0;
        md.epoch = 0;
        md.distance = 0;
        md.opened = 0;
        md.contributed = 0;
        md.exponent = 0;
        md.reason = ADDED;
        md.goes_on = 0;
        md.recirculates = 0;
        transition select(ig_intr_md.ingress_port) {
            68 &&& 0x07f: parse_passage;  // the recirculation port of every pipe
            loopback_ports: parse_passage;
            default: parse_fresh;
        }
    }

    // --- Packets from a station, and packets that another pipe has handed over unchanged (step 0) ---

#include "fresh_packets.p4"
    // The parser's match registers hold only four bytes, so the UDP length is compared here, where it is parsed. Each
    // state that follows stands for one length, and checks that the rest of the packet agrees with it.
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination, hdr.udp.length) {
            (ROCE_PORT, ROCE_EXPONENT): parse_bth_exponent;
            (ROCE_PORT, ROCE_WORDS): parse_bth_words;
            (ROCE_PORT, ROCE_BOTH): parse_bth_both;
            (ROCE_PORT, _): parse_other_bth;
            (_, UDP_EMPTY): parse_magic_empty;
            (_, UDP_EXPONENT): parse_magic_exponent;
            (_, UDP_WORDS): parse_magic_words;
            (_, UDP_BOTH): parse_magic_both;
            default: parse_other_magic;
        }
    }

    // Parses a datagram of one length. An update with so many words and exponents goes on with `next`.
#define DATAGRAM(shape, word_count, exponent_count, next) \
    state parse_magic_##shape { \
        transition select(packet.lookahead<bit<32>>()) { \
            MAGIC_VERSION_UPDATE: parse_jaxina_##shape; \
            MAGIC_VERSION &&& 0xffffff00: parse_other_kind; \
            default: accept; \
        } \
    } \
    state parse_jaxina_##shape { \
        packet.extract(hdr.jaxina); \
        md.kind = UDP_UPDATE; \
        md.slot = hdr.jaxina.slot; \
        md.epoch = hdr.jaxina.epoch; \
        md.fingerprint = hdr.jaxina.fingerprint; \
        transition select(hdr.jaxina.words, hdr.jaxina.exponents) { \
            (word_count, exponent_count): next; \
            default: accept; \
        } \
    }
    DATAGRAM(empty, 0, 0, complete)
    DATAGRAM(exponent, 0, 1, parse_exponent)
    DATAGRAM(words, WORDS, 0, parse_words)
    DATAGRAM(both, WORDS, 1, parse_exponent_and_words)

    state parse_other_magic {
        transition select(packet.lookahead<bit<32>>()) {
            MAGIC_VERSION &&& 0xffffff00: parse_other_kind;
            default: accept;
        }
    }
    state parse_other_kind {
        md.kind = UDP_UPDATE;
        transition accept;
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

    // Parses a RoCE write of one length. It must be a write of one packet, with so many exponents in its address and so
    // many bytes in its message. The seventh byte behind the BTH is reth.exponents.
#define MESSAGE(shape, exponent_count, bytes, next) \
    state parse_bth_##shape { \
        packet.extract(hdr.bth); \
        md.kind = ROCE_UPDATE; \
        transition select(hdr.bth.opcode, packet.lookahead<bit<56>>()[7:0]) { \
            (WRITE_ONLY_IMM, exponent_count): parse_write_##shape; \
            default: accept; \
        } \
    } \
    state parse_write_##shape { \
        packet.extract(hdr.reth); \
        packet.extract(hdr.immediate); \
        md.slot = hdr.reth.slot; \
        md.epoch = hdr.reth.epoch; \
        md.fingerprint = hdr.immediate.fingerprint; \
        transition select(hdr.reth.length) { \
            bytes: next; \
            default: accept; \
        } \
    }
    MESSAGE(exponent, 1, 4, parse_tail)
    MESSAGE(words, 0, WORD_BYTES, parse_words)
    MESSAGE(both, 1, WORD_BYTES + 4, parse_words_before_tail)

    state parse_other_bth {
        packet.extract(hdr.bth);
        md.kind = ROCE_UPDATE;
        transition accept;
    }

    state parse_words {
        packet.extract(hdr.low);
        packet.extract(hdr.high);
#if PIPES == 1
        transition complete;
#else
        transition well_formed;
#endif
    }
    state parse_words_before_tail {
        packet.extract(hdr.low);
        packet.extract(hdr.high);
#if PIPES == 1
        transition parse_tail;
#else
        transition well_formed;
#endif
    }
    state parse_tail {
        packet.extract(hdr.tail);
        md.exponent = hdr.tail.value;
        transition complete;
    }
    // The packet has no words for later pipes.
    state complete {
        md.counts = 1;
        transition well_formed;
    }
    state well_formed {
        md.well_formed = 1;
        transition accept;
    }

    // --- Packets on their way through the pipes ---

    state parse_passage {
        packet.extract(hdr.passage);
        transition select(hdr.passage.step) {
            0: parse_fresh;
#if PIPES == 2
            1: parse_consuming;
            3: parse_reading_high;
#endif
#if PIPES == 4
            1: parse_consuming;
            2: parse_consuming;
            3: parse_consuming;
            5: parse_reading_high;
            7: parse_reading_high;
            9: parse_reading_high;
#endif
            default: parse_reading_low;
        }
    }
    state parse_reading_low {
        md.kind = READING_LOW;
        transition parse_again;
    }
    state parse_again {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination) {
            ROCE_PORT: parse_write_again;
            default: parse_jaxina_again;
        }
    }
    state parse_write_again {
        packet.extract(hdr.bth);
        packet.extract(hdr.reth);
        packet.extract(hdr.immediate);
        md.epoch = hdr.reth.epoch;
        transition accept;
    }
    state parse_jaxina_again {
        packet.extract(hdr.jaxina);
        md.epoch = hdr.jaxina.epoch;
        transition select(hdr.jaxina.exponents) {
            1: parse_exponent_again;
            default: accept;
        }
    }
    state parse_exponent_again {
        packet.extract(hdr.exponent);
        transition accept;
    }
#if PIPES > 1
    state parse_reading_high {
        md.kind = READING_HIGH;
        transition parse_again;
    }
    state parse_consuming {
        md.kind = CONSUMING;
        md.well_formed = 1;
        md.admitted = 1;
        transition select(hdr.passage.step) {
            LAST_CONSUME: parse_last_consuming;
            default: parse_turn_consuming;
        }
    }
    state parse_last_consuming {
        md.counts = 1;
        transition parse_turn_consuming;
    }
    state parse_turn_consuming {
        transition select(hdr.passage.turn) {
            NOW: parse_headers_consuming;
            default: parse_earlier_consuming;
        }
    }
    state parse_earlier_consuming {
        md.distance = 1;
        transition parse_headers_consuming;
    }
    state parse_headers_consuming {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination) {
            ROCE_PORT: parse_write_consuming;
            default: parse_jaxina_consuming;
        }
    }
    state parse_write_consuming {
        packet.extract(hdr.bth);
        packet.extract(hdr.reth);
        packet.extract(hdr.immediate);
        packet.extract(hdr.low);
        packet.extract(hdr.high);
        md.epoch = hdr.reth.epoch;
        md.fingerprint = hdr.immediate.fingerprint;
        transition select(hdr.passage.step, hdr.reth.exponents) {
            (LAST_CONSUME, 1): parse_tail_consuming;
            default: accept;
        }
    }
    state parse_tail_consuming {
        packet.extract(hdr.tail);
        md.exponent = hdr.tail.value;
        transition accept;
    }
    state parse_jaxina_consuming {
        packet.extract(hdr.jaxina);
        md.epoch = hdr.jaxina.epoch;
        md.fingerprint = hdr.jaxina.fingerprint;
        transition select(hdr.jaxina.exponents) {
            1: parse_exponent_consuming;
            default: consume_words;
        }
    }
    state parse_exponent_consuming {
        packet.extract(hdr.exponent);
        transition consume_words;
    }
    state consume_words {
        packet.extract(hdr.low);
        packet.extract(hdr.high);
        transition accept;
    }
#endif
}

struct heard_t {
    bit<13> rid;
    bit<48> mac;
    bit<32> ip;
    bit<16> port;
    PortId_t ingress_port;
}

struct contradiction_t {
    bit<13> rid;
    bit<10> slot_index;
}

const bit<3> DIGEST_HEARD = 1;
const bit<3> DIGEST_CONTRADICTION = 2;

control IngressDeparser(packet_out packet,
                        inout ingress_headers_t hdr,
                        in ingress_metadata_t md,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    Digest<heard_t>(DIGEST_HEARD) heard;
    Digest<contradiction_t>(DIGEST_CONTRADICTION) contradiction;

    apply {
        if (ig_dprsr_md.digest_type == DIGEST_HEARD) {
            heard.pack({hdr.passage.rid, hdr.ethernet.source, hdr.ipv4.source, hdr.udp.source, hdr.passage.port});
        }
        if (ig_dprsr_md.digest_type == DIGEST_CONTRADICTION) {
            contradiction.pack({hdr.passage.rid, hdr.passage.slot_index[9:0]});
        }
        packet.emit(hdr);
    }
}

#endif
