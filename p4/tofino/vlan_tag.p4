// Gives what the switch sends the 802.1Q tag of the port by which it leaves, if that port has one. controller/vlan_tag.py
// fills the table.
#ifndef JAXINA_VLAN_TAG_P4
#define JAXINA_VLAN_TAG_P4

control VlanTag(inout egress_headers_t hdr, in egress_intrinsic_metadata_t eg_intr_md) {
    action tag(bit<16> tci) {
        hdr.vlan.setValid();
        hdr.vlan.tci = tci;
        hdr.vlan.ether_type = IPV4;
        hdr.ethernet.ether_type = VLAN;
    }
    table ports {
        key = { eg_intr_md.egress_port : exact @name("egress_port"); }
        actions = { tag; @defaultonly NoAction; }
        const default_action = NoAction;
        size = PORTS;
    }

    apply {
        if (hdr.ipv4.isValid()) {  // a packet that leaves as it is has no headers in egress
            ports.apply();
        }
    }
}

#endif
