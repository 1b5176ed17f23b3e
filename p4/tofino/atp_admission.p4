// Stage 0 finds out whose packet this is, and which entry its pass has. An update is of a child of this switch, or of a
// worker below one. A reply must come from the server of its slot. One lookup answers everything, the address too,
// since the entry's owner changes in the next stage. controller/atp_admission.py fills the tables.
#ifndef JAXINA_ATP_ADMISSION_P4
#define JAXINA_ATP_ADMISSION_P4

control AtpAdmission(inout ingress_headers_t hdr,
                     inout ingress_metadata_t md,
                     in ingress_intrinsic_metadata_t ig_intr_md,
                     inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    action admit(bit<8> job_index, bit<16> first_entry, bit<14> rid, bit<8> others, bit<32> salt, bit<1> passes) {
        md.admitted = 1;
        md.job_index = job_index;
        md.passes = passes;
        hdr.passage.others = others;
        hdr.passage.sum_index = hdr.jaxina.slot + first_entry;
        hdr.passage.rid = rid;
        hdr.passage.key = hdr.jaxina.epoch ^ salt;
    }
    // The packet is of a child, but not from the child's address, or its address is not known yet.
    action ask(bit<8> job_index, bit<14> rid) {
        md.job_index = job_index;
        md.refusal = UNHEARD;
        hdr.passage.rid = rid;
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

    table updates {
        key = {
            hdr.jaxina.job : ternary @name("job");
            hdr.jaxina.secret : ternary @name("secret");
            hdr.jaxina.kind : ternary @name("kind");
            hdr.jaxina.worker : ternary @name("worker");
            hdr.jaxina.slot : range @name("slot");
            hdr.ipv4.source : ternary @name("address");
            hdr.udp.source : ternary @name("port");
            ig_intr_md.ingress_port : ternary @name("ingress_port");
        }
        actions = { admit; ask; hand_over; refuse; }
        default_action = refuse(0, UNKNOWN_JOB);
        size = ADMISSIONS;
    }

    action admit_reply(bit<8> job_index, bit<16> entry, bit<16> group, bit<32> salt) {
        md.admitted = 1;
        md.job_index = job_index;
        hdr.passage.sum_index = entry;
        hdr.passage.group = group;
        hdr.passage.key = hdr.jaxina.epoch ^ salt;
    }
    table replies {
        key = {
            hdr.jaxina.job : exact @name("job");
            hdr.jaxina.secret : exact @name("secret");
            hdr.jaxina.slot : exact @name("slot");
            hdr.ipv4.source : exact @name("address");
            hdr.udp.source : exact @name("port");
        }
        actions = { admit_reply; refuse; }
        const default_action = refuse(0, UNKNOWN_JOB);
        size = UPSTREAMS;
    }

    // Replies that come in on a port of another pipe. In that pipe nobody owns an entry, so nothing is freed there.
    action reply_elsewhere(PortId_t port) {
        md.way = HANDED;
        ig_tm_md.ucast_egress_port = port;
        ig_tm_md.bypass_egress = 1;
    }
    table elsewhere {
        key = { ig_intr_md.ingress_port : ternary @name("ingress_port"); }
        actions = { reply_elsewhere; NoAction; }
        default_action = NoAction;
        size = 32;
    }

    apply {
        if (md.well_formed == 1) {
            if (md.kind == UDP_UPDATE) {
                updates.apply();
            } else {
                replies.apply();
                elsewhere.apply();
            }
        }
    }
}

#endif
