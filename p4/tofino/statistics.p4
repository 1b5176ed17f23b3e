// Packets and bytes by job and by what became of them. controller/statistics.py reads them.
#ifndef JAXINA_STATISTICS_P4
#define JAXINA_STATISTICS_P4

control Statistics(in ingress_metadata_t md) {
    Counter<bit<64>, bit<12>>(4096, CounterType_t.PACKETS_AND_BYTES) packets;

    apply { packets.count(md.job_index ++ md.reason); }
}

#endif
