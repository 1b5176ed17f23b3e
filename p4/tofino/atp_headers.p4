// atp.p4's headers besides those of packet_headers.p4, and its metadata of ingress and egress.
#ifndef JAXINA_ATP_HEADERS_P4
#define JAXINA_ATP_HEADERS_P4

#include "packet_headers.p4"

// What a packet carries to its next pass, and to egress. It lies in front of all other headers. The parser looks for it
// only in packets from a loopback port, so no station can forge one.
header passage_h {
    bit<8> step;
    route_t route;
    bit<8> has_words;
    bit<8> others;              // children of the job, less one
    @padding bit<7> pad_port;
    PortId_t port;              // the port where the packet came in
    @padding bit<2> pad_rid;
    bit<14> rid;                // the child that sent it; later the station that it goes to
    bit<16> sum_index;          // the entry
    bit<16> group;
    bit<32> key;                // of the pass
}

struct ingress_headers_t {
    passage_h passage;
    ethernet_h ethernet;
    vlan_h vlan;
    ipv4_h ipv4;
    udp_h udp;
    jaxina_h jaxina;
    exponent_h exponent;
    words_h low;
    words_h high;
}

struct egress_headers_t {
    passage_h passage;
    ethernet_h ethernet;
    vlan_h vlan;
    ipv4_h ipv4;
    udp_h udp;
}

// The time comes from the parser. In several containers it would take a part of one whose other part is not the parser's
// to write (docs/tofino.md, "Compilers").
@pa_container_size("ingress", "md.now", 32)
struct ingress_metadata_t {
    kind_t kind;
    bit<1> well_formed;    // whether all lengths in the packet agree
    bit<1> admitted;
    bit<1> counts;         // whether what becomes of the packet is decided in this pass
    bit<1> whole;          // whether the update has no words, or those of a whole chunk
    bit<1> passes;         // whether the sender's packets are sent on as they come
    reason_t refusal;      // why the packet is not admitted
    bit<8> job_index;
    bit<16> stamp_index;
    bit<32> now;
    bit<1> known;          // whether an earlier packet of the pass has found the entry taken
    bit<1> may_claim;
    owned_t owned;
    compared_t opened;     // SAME_PASS: the pass has the entry. OTHER_PASS: it has claimed it with this packet
    bit<1> contributed;    // whether the sender had been counted already
    bit<8> missing;
    bit<8> exponent;
    bit<8> mark;           // CODE_MARKED or 0
    reason_t reason;
    bit<12> counter;
    bit<1> goes_on;        // not used here: no packet's fate is left to a later pass
    way_t way;
    bit<1> recirculates;
}

struct egress_metadata_t {
    bit<14> rid;
}

#endif
