// Decides where a packet goes after ingress: to its next pass, to the workers, or nowhere. controller/recirculation.py
// chooses the ports that lead to the next pass.
#ifndef JAXINA_RECIRCULATION_P4
#define JAXINA_RECIRCULATION_P4

control Recirculation(inout ingress_headers_t hdr,
                      inout ingress_metadata_t md,
                      inout ingress_intrinsic_metadata_for_tm_t ig_tm_md,
                      inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    // --- Fresh updates ---

    action drop() {
        ig_dprsr_md.drop_ctl = 1;
    }
    action recirculate() {
        md.recirculates = 1;
        ig_tm_md.bypass_egress = 1;
    }
    // There are no words to read. Only the slot's turn must move on, and the last step does that.
    action finish_without_words() {
        recirculate();
        hdr.passage.step = LAST_STEP;
        hdr.passage.has_words = 0;
    }
#if PIPES == 1
    // The high words have been read. The next pass reads the low ones.
    action begin_reading() {
        recirculate();
        hdr.passage.step = LAST_STEP;
        hdr.passage.has_words = 1;
        hdr.low.setInvalid();
    }
#else
    action begin_consuming() {
        hdr.passage.step = 1;
        hdr.passage.has_words = 1;
        recirculate();
        hdr.low.setInvalid();
        hdr.high.setInvalid();
    }
#endif

    table first {
        key = {
            hdr.passage.outcome : exact;
            hdr.low.isValid() : exact;
        }
        actions = {
            drop;
            finish_without_words;
#if PIPES == 1
            begin_reading;
#else
            begin_consuming;
#endif
        }
        const default_action = drop;
        const entries = {
            (RESULT, false) : finish_without_words();
            (COPY, false) : finish_without_words();
#if PIPES == 1
            (RESULT, true) : begin_reading();
            (COPY, true) : begin_reading();
#else
            (NOT_DECIDED, true) : begin_consuming();
#endif
        }
        size = 8;
    }

    // --- Packets on their way through the pipes ---

    // A packet with the chip's global replication id, 0, gets pruned copies for nodes of any id. The exclusion id of a
    // result is 0, too, which is that of port 0. So without an id of its own, a result would have no copy there.
    action multicast() {
        ig_tm_md.mcast_grp_a = hdr.passage.group;
        ig_tm_md.rid = 0xffff;
        hdr.passage.route = TO_WORKER;
    }
    action copy_to_worker() {
        ig_tm_md.ucast_egress_port = hdr.passage.port;
        hdr.passage.route = TO_WORKER;
    }
    action copy_to_sender() {
        ig_tm_md.ucast_egress_port = hdr.passage.port;
        hdr.passage.route = TO_SENDER;
    }
    action multicast_words() {
        multicast();
        hdr.low.setValid();
    }
    action copy_words_to_worker() {
        copy_to_worker();
        hdr.low.setValid();
    }
    action copy_words_to_sender() {
        copy_to_sender();
        hdr.low.setValid();
    }
#if PIPES > 2
    action consume(bit<8> next) {
        hdr.passage.step = next;
        recirculate();
        hdr.low.setInvalid();
        hdr.high.setInvalid();
    }
#endif
#if PIPES > 1
    action turn_round() {
        hdr.passage.step = LAST_CONSUME + 1;
        recirculate();
        hdr.low.setInvalid();
    }
    action read_high(bit<8> next) {
        hdr.passage.step = next;
        recirculate();
        hdr.high.setValid();
    }
    action read_low(bit<8> next) {
        hdr.passage.step = next;
        recirculate();
        hdr.low.setValid();
    }
#endif

    table following {
        key = {
            hdr.passage.step : exact;
            hdr.passage.outcome : exact;
            hdr.passage.has_words : exact;
            hdr.bth.isValid() : exact;
        }
        actions = {
            drop; multicast; copy_to_worker; copy_to_sender; multicast_words; copy_words_to_worker; copy_words_to_sender;
#if PIPES > 2
            consume;
#endif
#if PIPES > 1
            turn_round; read_high; read_low;
#endif
        }
        const default_action = drop;
        const entries = {
            (LAST_STEP, RESULT, 0, false) : multicast();
            (LAST_STEP, RESULT, 0, true) : multicast();
            (LAST_STEP, RESULT, 1, false) : multicast_words();
            (LAST_STEP, RESULT, 1, true) : multicast_words();
            (LAST_STEP, COPY, 0, false) : copy_to_sender();
            (LAST_STEP, COPY, 0, true) : copy_to_worker();
            (LAST_STEP, COPY, 1, false) : copy_words_to_sender();
            (LAST_STEP, COPY, 1, true) : copy_words_to_worker();
#if PIPES > 1
#define STEP(step, outcome, action) (step, outcome, 1, false) : action; (step, outcome, 1, true) : action;
#define ANSWERED(step, action) STEP(step, RESULT, action) STEP(step, COPY, action)
#endif
#if PIPES == 2
            ANSWERED(1, turn_round())
            ANSWERED(2, read_low(3))
            ANSWERED(3, read_high(4))
#endif
#if PIPES == 4
            STEP(1, NOT_DECIDED, consume(2))
            STEP(2, NOT_DECIDED, consume(3))
            ANSWERED(3, turn_round())
            ANSWERED(4, read_low(5))
            ANSWERED(5, read_high(6))
            ANSWERED(6, read_low(7))
            ANSWERED(7, read_high(8))
            ANSWERED(8, read_low(9))
            ANSWERED(9, read_high(10))
#endif
        }
        size = 64;
    }

    action to_port(PortId_t port) {
        ig_tm_md.ucast_egress_port = port;
    }
    table next_pass {
        key = {
            hdr.passage.step : exact @name("step");
            hdr.passage.slot_index[3:0] : exact @name("lane");
        }
        actions = { to_port; @defaultonly drop; }
        const default_action = drop;
        size = 256;
    }

    action be_result() {
        hdr.jaxina.kind = KIND_RESULT;
        hdr.jaxina.worker = ALL_WORKERS;
        hdr.jaxina.crc32 = 0;
    }

    apply {
        if (md.goes_on == 1 && md.kind != CONSUMING) {
            first.apply();
        }
        if (md.goes_on == 1 && hdr.jaxina.isValid()) {
            be_result();
        }
        if (md.kind == CONSUMING || md.kind == READING_HIGH || md.kind == READING_LOW) {
            following.apply();
        }
        if (md.recirculates == 1) {
            next_pass.apply();
        }
    }
}

#endif
