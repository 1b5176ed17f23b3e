// The headers of packets that both programs know: addresses, jaxina's own header, exponents and words.
#ifndef JAXINA_PACKET_HEADERS_P4
#define JAXINA_PACKET_HEADERS_P4

header ethernet_h {
    bit<48> destination;
    bit<48> source;
    bit<16> ether_type;
}

// An 802.1Q tag, behind the addresses. The Ethernet header then has ether type 0x8100.
header vlan_h {
    bit<16> tci;                // PCP 3, DEI 1, VLAN 12
    bit<16> ether_type;
}

header ipv4_h {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> total_length;
    bit<16> identification;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header udp_h {
    bit<16> source;
    bit<16> destination;
    bit<16> length;
    bit<16> checksum;
}

// jaxina's own header: rdma_engine/wire/packet.h.
header jaxina_h {
    bit<16> magic;
    bit<8> version;
    bit<8> kind;
    bit<32> job;
    bit<64> secret;
    bit<16> worker;
    bit<16> slot;
    bit<32> epoch;
    bit<32> fingerprint;
    bit<16> words;
    bit<8> exponents;
    bit<8> code;
    bit<32> crc32;
}

header exponent_h {
    bit<8> value;
    bit<24> padding;
}

// Half of the words that a pipe adds.
header words_h {
    bit<32> w00;
    bit<32> w01;
    bit<32> w02;
    bit<32> w03;
    bit<32> w04;
    bit<32> w05;
    bit<32> w06;
    bit<32> w07;
    bit<32> w08;
    bit<32> w09;
    bit<32> w10;
    bit<32> w11;
    bit<32> w12;
    bit<32> w13;
    bit<32> w14;
    bit<32> w15;
    bit<32> w16;
    bit<32> w17;
    bit<32> w18;
    bit<32> w19;
    bit<32> w20;
    bit<32> w21;
    bit<32> w22;
    bit<32> w23;
    bit<32> w24;
    bit<32> w25;
    bit<32> w26;
    bit<32> w27;
    bit<32> w28;
    bit<32> w29;
    bit<32> w30;
    bit<32> w31;
}

#endif
