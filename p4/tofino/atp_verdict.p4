// Decides what becomes of a packet, by the rule of rdma_engine/combiner/entry.h, from what the registers have returned.
#ifndef JAXINA_ATP_VERDICT_P4
#define JAXINA_ATP_VERDICT_P4

control AtpVerdict(inout ingress_headers_t hdr,
                   inout ingress_metadata_t md,
                   inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    action drop(reason_t reason) {
        md.reason = reason;
        ig_dprsr_md.drop_ctl = 1;
    }
    action drop_malformed() {
        md.reason = BAD_LENGTH;
        md.job_index = 0;
        ig_dprsr_md.drop_ctl = 1;
    }
    action drop_refused() {
        md.reason = md.refusal;
        ig_dprsr_md.drop_ctl = 1;
    }
    action hand_over() {
        md.reason = HANDED_OVER;
        md.way = HANDED;
    }
    action ask_controller() {
        md.reason = UNHEARD;
        ig_dprsr_md.digest_type = DIGEST_HEARD;
        ig_dprsr_md.drop_ctl = 1;
    }
    action tell(reason_t reason) {
        md.reason = reason;
        md.way = REFUSED;
    }
    action go(reason_t reason, way_t way) {
        md.reason = reason;
        md.way = way;
    }

    // A server's replies. The reply that frees an entry may be handed over to another pipe by then: `way` says it.
    table replies {
        key = {
            md.admitted : exact;
            md.way : exact;
            hdr.jaxina.worker : ternary;
        }
        actions = { drop_refused; go; }
        const default_action = drop_refused;
        const entries = {
            (1, HANDED, _) : go(HANDED_OVER, HANDED);
            (1, NOWHERE, 0xffff) : go(REPLY, TO_CHILDREN);
            (1, NOWHERE, _) : go(REPLY, TO_CHILD);
        }
        size = 4;
    }

    // Updates, and sums and updates that come round. A round is here, too, because one table takes fewer stages than two
    // that write the same.
    table updates {
        key = {
            md.kind : exact;
            md.well_formed : ternary;
            md.admitted : ternary;
            md.refusal : ternary;
            md.may_claim : ternary;
            md.owned : ternary;
            md.opened : ternary;
            md.contributed : ternary;
            md.missing : ternary;
        }
        actions = { drop; drop_malformed; drop_refused; hand_over; ask_controller; tell; go; }
        const default_action = drop_malformed;
        const entries = {
            (UDP_UPDATE, 1, 0, HANDED_OVER, _, _, _, _, _) : hand_over();
            (UDP_UPDATE, 1, 0, UNHEARD, _, _, _, _, _) : ask_controller();
            (UDP_UPDATE, 1, 0, UNKNOWN_JOB, _, _, _, _, _) : tell(UNKNOWN_JOB);
            (UDP_UPDATE, 1, 0, WRONG_SECRET, _, _, _, _, _) : tell(WRONG_SECRET);
            (UDP_UPDATE, 1, 0, _, _, _, _, _, _) : drop_refused();
            (UDP_UPDATE, 1, 1, _, _, _, OTHER_PASS, _, _) : drop(CLAIMED);
            (UDP_UPDATE, 1, 1, _, _, _, SAME_PASS, 0, 0) : go(COMBINED, ROUND_READING);
            (UDP_UPDATE, 1, 1, _, _, _, SAME_PASS, 0, _) : drop(JOINED);
            (UDP_UPDATE, 1, 1, _, _, _, SAME_PASS, 1, 0) : go(REPEATED, ROUND_READING);
            (UDP_UPDATE, 1, 1, _, _, _, SAME_PASS, 1, _) : drop(ABSORBED);
            // A pass that wanted the entry is remembered. All others have been sent on before, or are sent again.
            (UDP_UPDATE, 1, 1, _, 1, TAKEN, _, _, _) : go(COLLIDED, ROUND_REMEMBERING);
            (UDP_UPDATE, 1, 1, _, _, 0, _, _, _) : go(PASSED_ON, UPSTREAM);
            (UDP_UPDATE, 1, 1, _, _, _, _, _, _) : go(COLLIDED, UPSTREAM);
            // The entry may be another pass's by now, or may have begun anew. Then the sum's low words are gone. The
            // workers send again.
            (READING_LOW, _, _, _, _, _, SAME_PASS, _, 0) : go(COMBINED, UPSTREAM);
            (READING_LOW, _, _, _, _, _, _, _, _) : drop(COLLIDED);
            (REMEMBERING, _, _, _, _, _, _, _, _) : go(COLLIDED, UPSTREAM);
        }
        size = 16;
    }

    // Replies come first: what decides them is known before the registers of updates are read.
    apply {
        if (md.kind == RESULT_PASSING || md.kind == REPLY_PASSING) {
            replies.apply();
        }
        if (md.kind == UDP_UPDATE || md.kind == READING_LOW || md.kind == REMEMBERING) {
            updates.apply();
        }
    }
}

#endif
