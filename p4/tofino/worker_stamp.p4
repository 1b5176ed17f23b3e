// Keeps a stamp for each worker and version of a slot: the epoch that the worker last contributed to. It replaces
// SwitchML's bitmap. A stamp needs no clearing, and it cannot be mistaken for that of another pass. And one stateful
// ALU can compare a stamp, while it cannot test one bit of a word. controller/worker_stamp.py resets the register.
#ifndef JAXINA_WORKER_STAMP_P4
#define JAXINA_WORKER_STAMP_P4

control WorkerStamp(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<stamp_t, bit<15>>(STAMPS) stamps;

    RegisterAction<stamp_t, bit<15>, bit<1>>(stamps) mark_even = {
        void apply(inout stamp_t stamp, out bit<1> result) {
            result = 0;
            if (stamp.even == md.epoch) {
                result = 1;
            }
            stamp.even = md.epoch;
        }
    };
    RegisterAction<stamp_t, bit<15>, bit<1>>(stamps) mark_odd = {
        void apply(inout stamp_t stamp, out bit<1> result) {
            result = 0;
            if (stamp.odd == md.epoch) {
                result = 1;
            }
            stamp.odd = md.epoch;
        }
    };
    RegisterAction<stamp_t, bit<15>, bit<1>>(stamps) look_even = {
        void apply(inout stamp_t stamp, out bit<1> result) {
            result = 0;
            if (stamp.even == md.epoch) {
                result = 1;
            }
        }
    };
    RegisterAction<stamp_t, bit<15>, bit<1>>(stamps) look_odd = {
        void apply(inout stamp_t stamp, out bit<1> result) {
            result = 0;
            if (stamp.odd == md.epoch) {
                result = 1;
            }
        }
    };

    action mark_even_pass() { md.contributed = mark_even.execute(md.stamp_index[14:0]); }
    action mark_odd_pass() { md.contributed = mark_odd.execute(md.stamp_index[14:0]); }
    action look_up_even() { md.contributed = look_even.execute(md.stamp_index[14:0]); }
    action look_up_odd() { md.contributed = look_odd.execute(md.stamp_index[14:0]); }

    table stamp {
        key = {
            md.admitted : exact;
            md.distance : ternary;
            hdr.passage.sum_index[0:0] : exact;
        }
        actions = { mark_even_pass; mark_odd_pass; look_up_even; look_up_odd; NoAction; }
        const default_action = NoAction;
        const entries = {
            (1, 0, 0) : mark_even_pass();
            (1, 0, 1) : mark_odd_pass();
            (1, _, 0) : look_up_even();
            (1, _, 1) : look_up_odd();
        }
        size = 4;
    }

    apply { stamp.apply(); }
}

#endif
