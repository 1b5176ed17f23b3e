// The interpreter's own tna.p4: the metadata that Tofino 1 puts in front of a packet, and the metadata that it wants
// back. It has only the fields that the program or the interpreter uses. All others are left out, or are padding.

#define PORT_METADATA_SIZE 64

typedef bit<9> PortId_t;
const bit<8> PORT_METADATA_BITS = PORT_METADATA_SIZE;
const bit<9> RECIRCULATION_PORT = 68;  // in each pipe: pipe p has port p * PORTS_OF_A_PIPE + 68
const bit<9> PORTS_OF_A_PIPE = 128;

header ingress_intrinsic_metadata_t {
    @padding bit<7> _before;
    PortId_t ingress_port;
    bit<48> ingress_mac_tstamp;
}

struct ingress_intrinsic_metadata_from_parser_t {
    bit<16> parser_err;
}

struct ingress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;
    bit<3> digest_type;
}

struct ingress_intrinsic_metadata_for_tm_t {
    PortId_t ucast_egress_port;
    bit<1> bypass_egress;
    bit<16> mcast_grp_a;
    bit<9> level2_exclusion_id;
    bit<16> rid;
}

header egress_intrinsic_metadata_t {
    @padding bit<7> _before;
    PortId_t egress_port;
    @padding bit<128> _between;
    bit<16> egress_rid;
    @padding bit<56> _behind;
}

struct egress_intrinsic_metadata_from_parser_t {
    bit<16> parser_err;
}

struct egress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;
}

struct egress_intrinsic_metadata_for_output_port_t {
    bit<1> capture_tstamp_on_tx;
}
