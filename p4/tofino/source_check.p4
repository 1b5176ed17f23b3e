// Checks that a UDP worker's packet comes from the address to which its results go. A packet from another address is
// dropped and reported to the controller. So a replay from elsewhere is not counted, nor is a worker whom the switch
// cannot answer. controller/source_check.py fills the table.
#ifndef JAXINA_SOURCE_CHECK_P4
#define JAXINA_SOURCE_CHECK_P4

control SourceCheck(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    action heard() {}
    action unheard() {
        md.admitted = 0;
        md.refusal = UNHEARD;
    }

    table sources {
        key = {
            hdr.passage.rid : exact @name("rid");
            hdr.ipv4.source : exact @name("address");
            hdr.udp.source : exact @name("port");
        }
        actions = { heard; unheard; }
        const default_action = unheard;
        size = REPLICAS;
    }

    apply {
        if (md.kind == UDP_UPDATE && md.admitted == 1) {
            sources.apply();
        }
    }
}

#endif
