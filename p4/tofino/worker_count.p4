// Counts how many workers each pass still waits for. The last pipe that adds words of an update counts its worker. So a
// worker that is counted has its words in every pipe, even if the chip has lost some of its packets on their way.
#ifndef JAXINA_WORKER_COUNT_P4
#define JAXINA_WORKER_COUNT_P4

control WorkerCount(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<bit<8>, bit<11>>(VERSIONS) missing;

    RegisterAction<bit<8>, bit<11>, bit<8>>(missing) start = {
        void apply(inout bit<8> value, out bit<8> result) {
            value = hdr.passage.others;
            result = value;
        }
    };
    RegisterAction<bit<8>, bit<11>, bit<8>>(missing) count = {
        void apply(inout bit<8> value, out bit<8> result) {
            value = value - 1;
            result = value;
        }
    };
    RegisterAction<bit<8>, bit<11>, bit<8>>(missing) look = {
        void apply(inout bit<8> value, out bit<8> result) {
            result = value;
        }
    };

    action start_count() { md.missing = start.execute(hdr.passage.sum_index[10:0]); }
    action count_worker() { md.missing = count.execute(hdr.passage.sum_index[10:0]); }
    action look_up() { md.missing = look.execute(hdr.passage.sum_index[10:0]); }

    table workers {
        key = {
            md.opened : ternary;
            md.contributed : exact;
        }
        actions = { start_count; count_worker; look_up; NoAction; }
        const default_action = NoAction;
        const entries = {
            (OTHER_PASS, 0) : start_count();
            (OTHER_EPOCH, 0) : start_count();
            (SAME_PASS, 0) : count_worker();
            (SAME_PASS, 1) : look_up();
        }
        size = 4;
    }

    apply {
        if (md.counts == 1 || md.kind == READING_LOW) {
            workers.apply();
        }
    }
}

#endif
