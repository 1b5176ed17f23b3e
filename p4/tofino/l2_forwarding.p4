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
        ig_tm_md.level2_exclusion_id = ig_intr_md.ingress_port;  // so that no copy goes back
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

    apply { stations.apply(); }
}

#endif
