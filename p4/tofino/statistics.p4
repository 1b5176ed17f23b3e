// Counts what comes for each job, and what becomes of it. Where words go on to later pipes, a later pipe decides. So the
// difference is what the chip has lost on the way. controller/statistics.py reads the counters.
#ifndef JAXINA_STATISTICS_P4
#define JAXINA_STATISTICS_P4

control Statistics(inout ingress_metadata_t md) {
    Counter<bit<64>, bit<8>>(256, CounterType_t.PACKETS_AND_BYTES) received;
    Counter<bit<64>, bit<12>>(4096, CounterType_t.PACKETS_AND_BYTES) packets;

    action find_counter() {
        md.counter[11:4] = md.job_index;
        md.counter[3:0] = md.reason;
    }
    action count() { packets.count(md.counter); }
    action receive() { received.count(md.job_index); }

    apply {
        find_counter();
        if (md.kind == UDP_UPDATE || md.kind == ROCE_UPDATE) {
            receive();
        }
        if (md.counts == 1 || ((md.kind == UDP_UPDATE || md.kind == ROCE_UPDATE) && md.goes_on == 0)) {
            count();
        }
    }
}

#endif
