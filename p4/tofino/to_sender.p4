// Sends a packet back to where it came from.
#ifndef JAXINA_TO_SENDER_P4
#define JAXINA_TO_SENDER_P4

control ToSender(inout egress_headers_t hdr) {
    action swap() {
        bit<48> mac = hdr.ethernet.source;
        bit<32> ip = hdr.ipv4.source;
        bit<16> port = hdr.udp.source;
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ipv4.source = hdr.ipv4.destination;
        hdr.udp.source = hdr.udp.destination;
        hdr.ethernet.destination = mac;
        hdr.ipv4.destination = ip;
        hdr.udp.destination = port;
        hdr.udp.checksum = 0;
    }

    apply { swap(); }
}

#endif
