// Keeps the largest exponent that the workers of a pass have sent for the slot's next chunk.
#ifndef JAXINA_EXPONENT_MAXIMUM_P4
#define JAXINA_EXPONENT_MAXIMUM_P4

control ExponentMaximum(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<bit<8>, bit<11>>(VERSIONS) exponents;

    RegisterAction<bit<8>, bit<11>, bit<8>>(exponents) start = {
        void apply(inout bit<8> value, out bit<8> result) {
            value = md.exponent;
            result = value;
        }
    };
    RegisterAction<bit<8>, bit<11>, bit<8>>(exponents) raise = {
        void apply(inout bit<8> value, out bit<8> result) {
            value = max(value, md.exponent);
            result = value;
        }
    };
    RegisterAction<bit<8>, bit<11>, bit<8>>(exponents) look = {
        void apply(inout bit<8> value, out bit<8> result) {
            result = value;
        }
    };

    action start_pass() { md.exponent = start.execute(hdr.passage.sum_index[10:0]); }
    action take_maximum() { md.exponent = raise.execute(hdr.passage.sum_index[10:0]); }
    action look_up() { md.exponent = look.execute(hdr.passage.sum_index[10:0]); }

    table maximum {
        key = {
            md.kind : exact;
            md.opened : ternary;
            md.contributed : ternary;
        }
        actions = { start_pass; take_maximum; look_up; NoAction; }
        const default_action = NoAction;
        const entries = {
            (UDP_UPDATE, OTHER_PASS, 0) : start_pass();
            (UDP_UPDATE, OTHER_EPOCH, 0) : start_pass();
            (UDP_UPDATE, SAME_PASS, 0) : take_maximum();
            (UDP_UPDATE, REPETITION, 1) : look_up();
            (ROCE_UPDATE, OTHER_PASS, 0) : start_pass();
            (ROCE_UPDATE, OTHER_EPOCH, 0) : start_pass();
            (ROCE_UPDATE, SAME_PASS, 0) : take_maximum();
            (ROCE_UPDATE, REPETITION, 1) : look_up();
#if PIPES > 1
            // A RoCE message has its exponent behind the words. So the last consuming pass takes it. If there are no
            // words, the first pass does.
            (CONSUMING, OTHER_PASS, 0) : start_pass();
            (CONSUMING, OTHER_EPOCH, 0) : start_pass();
            (CONSUMING, SAME_PASS, 0) : take_maximum();
            (CONSUMING, _, 1) : look_up();
#endif
        }
        size = 16;
    }

    apply { maximum.apply(); }
}

#endif
