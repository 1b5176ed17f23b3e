// Decides what an update is, by the rule of rdma_engine/aggregator/slot.h, from what the registers have returned. The
// first pipe decides whether an update may be added. The last pipe that adds its words decides what answer it gets.
#ifndef JAXINA_VERDICT_P4
#define JAXINA_VERDICT_P4

control Verdict(inout ingress_headers_t hdr,
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
    }
    action ask_controller(reason_t reason, bit<3> digest) {
        md.reason = reason;
        ig_dprsr_md.digest_type = digest;
        ig_dprsr_md.drop_ctl = 1;
    }
    // The Notice control, where there is one, tells the sender.
    action tell(reason_t reason) {
        md.reason = reason;
#if PIPES > 1
        ig_dprsr_md.drop_ctl = 1;
#endif
    }
#if PIPES > 1
    action ask_later_pipes(turn_of_pass_t turn) {
        md.goes_on = 1;
        hdr.passage.turn = turn;
    }
#endif
    action answer(reason_t reason, outcome_t outcome) {
        md.reason = reason;
        md.goes_on = 1;
        hdr.passage.outcome = outcome;
    }

    table verdict {
        key = {
            md.well_formed : ternary;
            md.admitted : ternary;
            md.counts : ternary;
            md.refusal : ternary;
            md.distance : ternary;
            md.opened : ternary;
            md.found : ternary;
            md.contributed : ternary;
            md.missing : ternary;
        }
        actions = {
            drop;
            drop_malformed;
            drop_refused;
            hand_over;
            ask_controller;
            tell;
            answer;
#if PIPES > 1
            ask_later_pipes;
#endif
        }
        const default_action = drop(AHEAD);
        const entries = {
            (0, _, _, _, _, _, _, _, _) : drop_malformed();
            (1, 0, _, HANDED_OVER, _, _, _, _, _) : hand_over();
            (1, 0, _, UNHEARD, _, _, _, _, _) : ask_controller(UNHEARD, DIGEST_HEARD);
            (1, 0, _, UNKNOWN_JOB, _, _, _, _, _) : tell(UNKNOWN_JOB);
            (1, 0, _, WRONG_SECRET, _, _, _, _, _) : tell(WRONG_SECRET);
            (1, 0, _, _, _, _, _, _, _) : drop_refused();
            (1, 1, _, _, 0, CONTRADICTION, _, _, _) : ask_controller(MISMATCH, DIGEST_CONTRADICTION);
#if PIPES > 1
            // Updates with words for later pipes. Even if this pipe has added its own before: a later one may not have.
            (1, 1, 0, _, 0, SAME_PASS, _, _, _) : ask_later_pipes(NOW);
            (1, 1, 0, _, 0, _, _, 0, _) : ask_later_pipes(NOW);
            (1, 1, 0, _, _, _, SAME_PASS, 1, _) : ask_later_pipes(EARLIER);
#endif
            // Updates of the slot's turn.
            (1, 1, _, _, 0, SAME_PASS, _, 1, 0) : answer(RESENT, COPY);
            (1, 1, _, _, 0, SAME_PASS, _, 1, _) : tell(PENDING);
            (1, 1, _, _, 0, _, _, 1, _) : drop(STALE);
            (1, 1, _, _, 0, _, _, 0, 0) : answer(COMPLETED, RESULT);
            (1, 1, _, _, 0, _, _, 0, _) : drop(ADDED);
            // First a complete pass that a version still holds, then passes that no version holds any more, then passes
            // to come.
            (1, 1, _, _, _, _, SAME_PASS, 1, _) : answer(RESENT, COPY);
            (1, 1, _, _, 0x80000000 &&& 0x80000000, _, _, _, _) : drop(STALE);
            (1, 1, _, _, _, _, _, _, _) : tell(AHEAD);
        }
        size = 32;
    }

    apply {
        if (md.kind == UDP_UPDATE || md.kind == ROCE_UPDATE || md.counts == 1) {
            verdict.apply();
        }
    }
}

#endif
