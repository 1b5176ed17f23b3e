// The headers of jaxina.p4's packets besides those of packet_headers.p4, and its metadata of ingress and egress.
#ifndef JAXINA_HEADERS_P4
#define JAXINA_HEADERS_P4

#include "packet_headers.p4"

// RoCEv2's base transport header: rdma_engine/wire/roce.h.
header bth_h {
    bit<8> opcode;
    bit<8> flags;
    bit<16> partition;
    bit<8> congestion;
    bit<24> qpn;
    bit<8> acknowledge;
    bit<24> psn;
}

// The RETH of a write to the switch. Where an address would be, it names the pass: rdma_engine/messages/pass_message.h.
header reth_h {
    bit<32> epoch;
    bit<16> slot;
    bit<8> exponents;
    bit<8> zero;
    bit<32> rkey;
    bit<32> length;
}

// The RETH of a write to a worker: the same 16 bytes, with an address.
header result_reth_h {
    bit<32> address_high;
    bit<32> address_low;
    bit<32> rkey;
    bit<32> length;
}

header immediate_h {
    bit<32> fingerprint;
}

// One byte of the bitmap in a kPending notice.
header bitmap_h {
    bit<8> bits;
}

// What a packet carries from pass to pass through the pipes, and to egress. It lies in front of all other headers. The
// parser looks for it only in packets from a loopback port, so no station can forge one.
header passage_h {
    bit<8> step;
    turn_of_pass_t turn;
    outcome_t outcome;
    route_t route;
    bit<8> has_words;
    @padding bit<7> pad_port;
    PortId_t port;              // the port where the packet came in
    @padding bit<3> pad_rid;
    bit<13> rid;
    bit<16> slot_index;
    bit<16> sum_index;
    bit<16> group;
    bit<8> others;              // workers of the job, less one
}

struct ingress_headers_t {
    passage_h passage;
    ethernet_h ethernet;
    vlan_h vlan;
    ipv4_h ipv4;
    udp_h udp;
    bth_h bth;
    reth_h reth;
    immediate_h immediate;
    jaxina_h jaxina;
    exponent_h exponent;
    bitmap_h bitmap0;
    bitmap_h bitmap1;
    bitmap_h bitmap2;
    bitmap_h bitmap3;
    words_h low;
    words_h high;
    exponent_h tail;  // the exponent of a RoCE message
}

struct egress_headers_t {
    passage_h passage;
    ethernet_h ethernet;
    vlan_h vlan;
    ipv4_h ipv4;
    udp_h udp;
    bth_h bth;
    result_reth_h reth;
}

@pa_container_size("ingress", "md.epoch", 32)  // in one container, so that the stamps' ALU can take it as it lies
struct ingress_metadata_t {
    kind_t kind;
    bit<1> well_formed;    // whether all lengths in the packet agree
    bit<1> admitted;
    bit<1> counts;         // whether no other pipe has words of the update to add: so this one counts the worker
    reason_t refusal;      // why the packet is not admitted
    bit<8> job_index;
    bit<32> bit_of_worker;
    bit<16> slot;
    bit<32> epoch;
    bit<32> fingerprint;
    bit<16> stamp_index;
    bit<32> distance;      // the packet's epoch - the slot's turn; in later pipes only whether it is 0
    compared_t opened;     // how the tag compares, if the packet is of the slot's turn: PassTag
    compared_t found;      // how the tag compares, if it is of another epoch
    bit<1> contributed;    // whether the worker had been counted already
    bit<8> missing;
    bit<32> seen;
    bit<8> exponent;
    reason_t reason;
    bit<12> counter;
    bit<1> goes_on;        // whether the verdict is that the packet has more passes to make
    bit<1> recirculates;
}

struct egress_metadata_t {
    bit<13> rid;
    bit<15> queue;
    bit<32> number;
    bit<2> place;
}

#endif
