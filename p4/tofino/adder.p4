// Sums two of the 64 words of a pipe. A pipe has 32 of these controls. Each uses one stateful ALU, which adds both
// words at once but can return only one of them.
#ifndef JAXINA_ADDER_P4
#define JAXINA_ADDER_P4

control Adder(inout bit<32> low, inout bit<32> high, in bit<16> sum_index, in ingress_metadata_t md) {
    Register<words_pair_t, bit<11>>(VERSIONS) words;

    RegisterAction<words_pair_t, bit<11>, bit<32>>(words) write = {
        void apply(inout words_pair_t sum, out bit<32> result) {
            sum.low = low;
            sum.high = high;
            result = sum.high;
        }
    };
    RegisterAction<words_pair_t, bit<11>, bit<32>>(words) add = {
        void apply(inout words_pair_t sum, out bit<32> result) {
            sum.low = sum.low + low;
            sum.high = sum.high + high;
            result = sum.high;
        }
    };
    RegisterAction<words_pair_t, bit<11>, bit<32>>(words) get_high = {
        void apply(inout words_pair_t sum, out bit<32> result) {
            result = sum.high;
        }
    };
    RegisterAction<words_pair_t, bit<11>, bit<32>>(words) get_low = {
        void apply(inout words_pair_t sum, out bit<32> result) {
            result = sum.low;
        }
    };

    action write_both() { high = write.execute(sum_index[10:0]); }
    action add_both() { high = add.execute(sum_index[10:0]); }
    action read_high() { high = get_high.execute(sum_index[10:0]); }
    action read_low() { low = get_low.execute(sum_index[10:0]); }

    table sum {
        key = {
            md.kind : ternary;
            md.opened : ternary;
            md.contributed : ternary;
        }
        actions = { write_both; add_both; read_high; read_low; NoAction; }
        const default_action = NoAction;
        const entries = {
            (READING_LOW, _, _) : read_low();
            (UDP_UPDATE, OTHER_PASS, 0) : write_both();
            (UDP_UPDATE, OTHER_EPOCH, 0) : write_both();
            (UDP_UPDATE, SAME_PASS, 0) : add_both();
            (UDP_UPDATE, REPETITION, 1) : read_high();
            (ROCE_UPDATE, OTHER_PASS, 0) : write_both();
            (ROCE_UPDATE, OTHER_EPOCH, 0) : write_both();
            (ROCE_UPDATE, SAME_PASS, 0) : add_both();
            (ROCE_UPDATE, REPETITION, 1) : read_high();
#if PIPES > 1
            (READING_HIGH, _, _) : read_high();
            (CONSUMING, OTHER_PASS, 0) : write_both();
            (CONSUMING, OTHER_EPOCH, 0) : write_both();
            (CONSUMING, SAME_PASS, 0) : add_both();
            (CONSUMING, _, 1) : read_high();
#endif
        }
        size = 16;
    }

    apply { sum.apply(); }
}

#endif
