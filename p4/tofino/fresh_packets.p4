// States of an ingress parser: they find the packets that are for the aggregator, and go on with parse_udp. All other
// packets are accepted as they are. The parser has the value set switch_addresses.
    state parse_fresh {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            IPV4: parse_ipv4;
            VLAN: parse_vlan;
            default: accept;
        }
    }
    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.protocol, hdr.ipv4.fragment) {
            (4, 5, 17, 0x0000 &&& 0xbfff): parse_addressee;
            default: accept;
        }
    }
    state parse_addressee {
        transition select(hdr.ipv4.destination) {
            switch_addresses: parse_udp;
            default: accept;
        }
    }
