// Takes the 802.1Q tag off an update, so nothing else in the program has to know of tags. Other traffic is forwarded
// with the tag that it has.
#ifndef JAXINA_VLAN_REMOVAL_P4
#define JAXINA_VLAN_REMOVAL_P4

control VlanRemoval(inout ingress_headers_t hdr, in ingress_metadata_t md) {
    action remove() {
        hdr.vlan.setInvalid();
        hdr.ethernet.ether_type = IPV4;
    }

    apply {
        if (hdr.vlan.isValid() && md.kind != PLAIN) {
            remove();
        }
    }
}

#endif
