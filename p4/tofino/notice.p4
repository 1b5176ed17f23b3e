// Sends a UDP worker the notices kPending, with the bitmap of the workers seen so far, and kRefused. A notice is the
// update itself without its words, sent back. The large program has no notices: most words are still unparsed here, so
// they could not be taken off. There the worker asks again when its timeout has passed.
#ifndef JAXINA_NOTICE_P4
#define JAXINA_NOTICE_P4

control Notice(inout ingress_headers_t hdr,
               inout ingress_metadata_t md,
               inout ingress_intrinsic_metadata_for_tm_t ig_tm_md,
               inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    action say(bit<8> kind, bit<8> code, bit<16> udp_length, bit<16> total_length) {
        hdr.passage.route = TO_SENDER;
        ig_tm_md.ucast_egress_port = hdr.passage.port;
        hdr.udp.length = udp_length;
        hdr.ipv4.total_length = total_length;
        hdr.jaxina.kind = kind;
        hdr.jaxina.code = code;
        hdr.jaxina.words = 0;
        hdr.jaxina.exponents = 0;
        hdr.jaxina.crc32 = 0;
        hdr.exponent.setInvalid();
        hdr.low.setInvalid();
        hdr.high.setInvalid();
    }
    action refuse(bit<8> code) {
        say(KIND_REFUSED, code, 44, 64);
    }
    // The bitmap has one byte for every eight workers, so there is one action for each number of bytes.
    action pend_1() {
        say(KIND_PENDING, 0, 45, 65);
        hdr.bitmap0.setValid();
        hdr.bitmap0.bits = md.seen[31:24];
    }
    action pend_2() {
        say(KIND_PENDING, 0, 46, 66);
        hdr.bitmap0.setValid();
        hdr.bitmap1.setValid();
        hdr.bitmap0.bits = md.seen[31:24];
        hdr.bitmap1.bits = md.seen[23:16];
    }
    action pend_3() {
        say(KIND_PENDING, 0, 47, 67);
        hdr.bitmap0.setValid();
        hdr.bitmap1.setValid();
        hdr.bitmap2.setValid();
        hdr.bitmap0.bits = md.seen[31:24];
        hdr.bitmap1.bits = md.seen[23:16];
        hdr.bitmap2.bits = md.seen[15:8];
    }
    action pend_4() {
        say(KIND_PENDING, 0, 48, 68);
        hdr.bitmap0.setValid();
        hdr.bitmap1.setValid();
        hdr.bitmap2.setValid();
        hdr.bitmap3.setValid();
        hdr.bitmap0.bits = md.seen[31:24];
        hdr.bitmap1.bits = md.seen[23:16];
        hdr.bitmap2.bits = md.seen[15:8];
        hdr.bitmap3.bits = md.seen[7:0];
    }
    action nothing() {
        ig_dprsr_md.drop_ctl = 1;
    }

    table notice {
        key = {
            md.kind : exact;
            md.reason : exact;
            hdr.passage.others : ternary;
        }
        actions = { refuse; pend_1; pend_2; pend_3; pend_4; nothing; }
        const default_action = nothing;
        const entries = {
            (UDP_UPDATE, UNKNOWN_JOB, _) : refuse(REFUSAL_UNKNOWN_JOB);
            (UDP_UPDATE, WRONG_SECRET, _) : refuse(REFUSAL_UNKNOWN_JOB);
            (UDP_UPDATE, AHEAD, _) : refuse(REFUSAL_AHEAD);
            (UDP_UPDATE, PENDING, 0x00 &&& 0xf8) : pend_1();
            (UDP_UPDATE, PENDING, 0x08 &&& 0xf8) : pend_2();
            (UDP_UPDATE, PENDING, 0x10 &&& 0xf8) : pend_3();
            (UDP_UPDATE, PENDING, 0x18 &&& 0xf8) : pend_4();
        }
        size = 8;
    }

    apply {
        if (md.reason == UNKNOWN_JOB || md.reason == WRONG_SECRET || md.reason == AHEAD || md.reason == PENDING) {
            notice.apply();
        }
    }
}

#endif
