// Parses the headers that hold addresses, and no more: egress only rewrites addresses.
#ifndef JAXINA_ATP_EGRESS_PARSER_P4
#define JAXINA_ATP_EGRESS_PARSER_P4

parser EgressParser(packet_in packet,
                    out egress_headers_t hdr,
                    out egress_metadata_t md,
                    out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        packet.extract(hdr.passage);
        transition select(hdr.passage.route) {
            AS_IT_IS: accept;
            default: parse_addresses;
        }
    }
    state parse_addresses {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        transition accept;
    }
}

#endif
