// Stage 0 finds out whose packet this is, and whether it may name this slot. One lookup answers both: the entries of a
// job hold its secret, its workers and its range of slots, so a packet of one job cannot reach another job's memory.
// controller/job_admission.py fills the tables.
#ifndef JAXINA_JOB_ADMISSION_P4
#define JAXINA_JOB_ADMISSION_P4

control JobAdmission(inout ingress_headers_t hdr,
                     inout ingress_metadata_t md,
                     in ingress_intrinsic_metadata_t ig_intr_md,
                     inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    action admit(bit<8> job_index, bit<16> slot_base, bit<5> worker, bit<8> others, bit<32> bit_of_worker, bit<16> group) {
        md.admitted = 1;
        md.job_index = job_index;
        hdr.passage.others = others;
        md.bit_of_worker = bit_of_worker;
        hdr.passage.slot_index = md.slot + slot_base;
        hdr.passage.rid[12:5] = job_index;
        hdr.passage.rid[4:0] = worker;
        hdr.passage.group = group;
    }

    action hand_over(PortId_t port) {
        md.refusal = HANDED_OVER;
        ig_tm_md.ucast_egress_port = port;
        ig_tm_md.bypass_egress = 1;
    }

    action refuse(bit<8> job_index, reason_t reason) {
        md.job_index = job_index;
        md.refusal = reason;
    }

    table udp_updates {
        key = {
            hdr.jaxina.job : ternary @name("job");
            hdr.jaxina.secret : ternary @name("secret");
            hdr.jaxina.worker : ternary @name("worker");
            hdr.jaxina.slot : range @name("slot");
            ig_intr_md.ingress_port : ternary @name("ingress_port");
        }
        actions = { admit; hand_over; refuse; }
        default_action = refuse(0, UNKNOWN_JOB);
        size = ADMISSIONS;
    }

    table roce_writes {
        key = {
            hdr.bth.qpn : ternary @name("qpn");
            hdr.ipv4.source : ternary @name("source");
            hdr.reth.rkey : ternary @name("rkey");
            hdr.reth.slot : range @name("slot");
            ig_intr_md.ingress_port : ternary @name("ingress_port");
        }
        actions = { admit; hand_over; refuse; }
        default_action = refuse(0, UNKNOWN_JOB);
        size = ADMISSIONS;
    }

    // Both the queue pair and the address name the slot. If they differ, the packet is refused.
    action contradicts_itself() {
        md.refusal = NO_ACCESS;
    }

    apply {
        if (md.well_formed == 1 && md.admitted == 0) {
            if (md.kind == UDP_UPDATE) {
                udp_updates.apply();
            } else if (hdr.bth.qpn[9:0] == hdr.reth.slot[9:0]) {
                roce_writes.apply();
            } else {
                contradicts_itself();
            }
        }
    }
}

#endif
