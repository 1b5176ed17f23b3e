// Writes egress's headers, with the checksum of IPv4.
#ifndef JAXINA_EGRESS_DEPARSER_P4
#define JAXINA_EGRESS_DEPARSER_P4

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
