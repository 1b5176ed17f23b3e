// Parses the headers that hold addresses, and no more: egress only rewrites addresses.
#ifndef JAXINA_EGRESS_PARSER_P4
#define JAXINA_EGRESS_PARSER_P4

parser EgressParser(packet_in packet,
                    out egress_headers_t hdr,
                    out egress_metadata_t md,
                    out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        packet.extract(hdr.passage);
        transition select(hdr.passage.route) {
            AS_IT_IS: accept;
            default: parse_reply;
        }
    }
    state parse_reply {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination) {
            ROCE_PORT: parse_write;
            default: accept;
        }
    }
    state parse_write {
        packet.extract(hdr.bth);
        packet.extract(hdr.reth);
        transition accept;
    }
}

control EgressDeparser(packet_out packet,
                       inout egress_headers_t hdr,
                       in egress_metadata_t md,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() ipv4_checksum;

    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = ipv4_checksum.update({
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.identification,
                hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination});
        }
        packet.emit(hdr);
    }
}

#endif
