// Keeps the bitmap of the workers that a pass has seen, for the notice kPending. It decides nothing: WorkerStamp
// decides whether a worker has been counted.
#ifndef JAXINA_WORKER_BITMAP_P4
#define JAXINA_WORKER_BITMAP_P4

control WorkerBitmap(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<bit<32>, bit<11>>(VERSIONS) seen;

    RegisterAction<bit<32>, bit<11>, bit<32>>(seen) start = {
        void apply(inout bit<32> value, out bit<32> result) {
            value = md.bit_of_worker;
            result = value;
        }
    };
    RegisterAction<bit<32>, bit<11>, bit<32>>(seen) insert = {
        void apply(inout bit<32> value, out bit<32> result) {
            value = value | md.bit_of_worker;
            result = value;
        }
    };

    action start_pass() { md.seen = start.execute(hdr.passage.sum_index[10:0]); }
    action insert_worker() { md.seen = insert.execute(hdr.passage.sum_index[10:0]); }

    table workers {
        key = { md.opened : ternary; }
        actions = { start_pass; insert_worker; NoAction; }
        const default_action = NoAction;
        const entries = {
            OTHER_PASS : start_pass();
            OTHER_EPOCH : start_pass();
            SAME_PASS : insert_worker();
        }
        size = 4;
    }

    apply { workers.apply(); }
}

#endif
