// Counts packets and bytes by job and by what became of them. controller/statistics.py reads the counters.
#ifndef JAXINA_STATISTICS_P4
#define JAXINA_STATISTICS_P4

control Statistics(inout ingress_metadata_t md) {
    Counter<bit<64>, bit<12>>(4096, CounterType_t.PACKETS_AND_BYTES) packets;

    action find_counter() {
        md.counter[11:4] = md.job_index;
        md.counter[3:0] = md.reason;
    }
    action count() { packets.count(md.counter); }

    apply {
        find_counter();
        if (md.kind == UDP_UPDATE || md.kind == ROCE_UPDATE) {
            count();
        }
    }
}

#endif
