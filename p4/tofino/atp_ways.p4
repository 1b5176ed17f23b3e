// Sends a packet to the slot's server or the switch above, to children, back to its sender, or to its next pass.
// controller/atp_ways.py fills the tables.
#ifndef JAXINA_ATP_WAYS_P4
#define JAXINA_ATP_WAYS_P4

control AtpWays(inout ingress_headers_t hdr,
                inout ingress_metadata_t md,
                inout ingress_intrinsic_metadata_for_tm_t ig_tm_md,
                inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    action drop() {
        ig_dprsr_md.drop_ctl = 1;
    }
    action to_station(bit<14> rid, PortId_t port) {
        hdr.passage.route = TO_STATION;
        hdr.passage.rid = rid;
        ig_tm_md.ucast_egress_port = port;
    }
    // The children's group has the number that a sum names as its sender.
    action to_upstream(bit<14> rid, PortId_t port, bit<16> sender) {
        to_station(rid, port);
        hdr.passage.group = sender;
    }
    table upstream {
        key = {
            md.job_index : exact @name("job_index");
            hdr.jaxina.slot : exact @name("slot");
        }
        actions = { to_upstream; @defaultonly drop; }
        const default_action = drop;
        size = UPSTREAMS;
    }
    table children {
        key = {
            md.job_index : exact @name("job_index");
            hdr.jaxina.worker : exact @name("worker");
        }
        actions = { to_station; @defaultonly drop; }
        const default_action = drop;
        size = CHILDREN_OF_JOBS;
    }

    // As in jaxina.p4: without a replication id of its own, a result would have no copy at port 0.
    action to_children() {
        ig_tm_md.mcast_grp_a = hdr.passage.group;
        ig_tm_md.rid = 0xffff;
        hdr.passage.route = TO_COPIES;
    }

    // The high words have been read. The next pass reads the low ones.
    action read_low() {
        md.recirculates = 1;
        hdr.passage.step = STEP_READING;
        hdr.passage.has_words = 1;
        hdr.low.setInvalid();
    }
    action read_nothing() {
        md.recirculates = 1;
        hdr.passage.step = STEP_READING;
        hdr.passage.has_words = 0;
    }
    action remember() {
        md.recirculates = 1;
        hdr.passage.step = STEP_REMEMBERING;
    }
    table round {
        key = {
            md.way : exact;
            hdr.low.isValid() : exact;
        }
        actions = { read_low; read_nothing; remember; NoAction; }
        const default_action = NoAction;
        const entries = {
            (ROUND_READING, true) : read_low();
            (ROUND_READING, false) : read_nothing();
            (ROUND_REMEMBERING, true) : remember();
            (ROUND_REMEMBERING, false) : remember();
        }
        size = 4;
    }
    action to_port(PortId_t port) {
        ig_tm_md.ucast_egress_port = port;
        ig_tm_md.bypass_egress = 1;
    }
    table next_pass {
        key = {
            hdr.passage.step : exact @name("step");
            hdr.passage.sum_index[3:0] : exact @name("lane");
        }
        actions = { to_port; @defaultonly drop; }
        const default_action = drop;
        size = 32;
    }

    // A sum says which transmission has brought it, and whether a packet of its pass had a mark.
    action be_first_sum() {
        hdr.jaxina.kind = KIND_COMBINED;
        hdr.jaxina.code = md.mark;
        hdr.jaxina.crc32 = 0;
        hdr.exponent.value = md.exponent;
    }
    action be_repeated_sum() {
        hdr.jaxina.kind = KIND_COMBINED;
        hdr.jaxina.code = md.mark | CODE_AGAIN;
        hdr.jaxina.crc32 = 0;
        hdr.exponent.value = md.exponent;
    }
    action name_group() { hdr.jaxina.worker = hdr.passage.group; }
    action take_low() { hdr.low.setValid(); }

    // A notice is the update itself without its words, sent back.
    action refuse() {
        hdr.passage.route = TO_SENDER;
        ig_tm_md.ucast_egress_port = hdr.passage.port;
        hdr.udp.length = 44;
        hdr.ipv4.total_length = 64;
        hdr.jaxina.kind = KIND_REFUSED;
        hdr.jaxina.code = REFUSAL_UNKNOWN_JOB;
        hdr.jaxina.words = 0;
        hdr.jaxina.exponents = 0;
        hdr.jaxina.crc32 = 0;
        hdr.exponent.setInvalid();
        hdr.low.setInvalid();
        hdr.high.setInvalid();
    }

    apply {
        // Every table has a condition of its own, as in jaxina.p4.
        if (md.kind == READING_LOW && hdr.passage.has_words == 1) {
            take_low();
        }
        if (md.way == UPSTREAM) {
            upstream.apply();
        }
        if (md.way == TO_CHILD) {
            children.apply();
        }
        if (md.way == TO_CHILDREN) {
            to_children();
        }
        if (md.way == REFUSED) {
            refuse();
        }
        if (md.reason == COMBINED && md.way == ROUND_READING) {
            be_first_sum();
        }
        if (md.reason == REPEATED && md.way == ROUND_READING) {
            be_repeated_sum();
        }
        if (md.kind == READING_LOW) {
            name_group();
        }
        round.apply();
        if (md.recirculates == 1) {
            next_pass.apply();
        }
    }
}

#endif
