// Forwards all traffic that is not for the aggregator. controller/l2_forwarding.py fills the table.
#ifndef JAXINA_L2_FORWARDING_P4
#define JAXINA_L2_FORWARDING_P4

control L2Forwarding(in ethernet_h ethernet,
                     in ingress_intrinsic_metadata_t ig_intr_md,
                     inout ingress_intrinsic_metadata_for_tm_t ig_tm_md,
                     inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    action forward(PortId_t port) {
        ig_tm_md.ucast_egress_port = port;
    }
    action flood(bit<16> group) {
        ig_tm_md.mcast_grp_a = group;
    }
    action discard() {
        ig_dprsr_md.drop_ctl = 1;
    }

    table stations {
        key = { ethernet.destination : exact @name("destination"); }
        actions = { forward; flood; discard; }
        default_action = discard;
        size = STATIONS;
    }

    // A broadcast goes to all ports but its own. The traffic manager knows its own by an exclusion id. The chip has ids up
    // to 287 only, and ports of the upper pipes have larger numbers, so the controller gives each port an id.
    action came_in(bit<9> exclusion_id) {
        ig_tm_md.level2_exclusion_id = exclusion_id;
    }
    table ports {
        key = { ig_intr_md.ingress_port : exact @name("ingress_port"); }
        actions = { came_in; discard; }
        const default_action = discard;
        size = PORTS;
    }

    apply {
        ports.apply();
        stations.apply();
    }
}

#endif
