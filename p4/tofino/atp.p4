// The switch of ATP in a Tofino: it combines what the children of a job send for a pass, if the pass finds a free entry
// of the table that all jobs share, and sends the sum to the pass's server. What finds no entry goes there as it came.
// The servers' results go back through it, and free the entries. docs/atp.md has the rule.
#include <core.p4>
#include <tna.p4>

#include "atp_constants.p4"
#include "atp_types.p4"
#include "atp_headers.p4"
#include "atp_ingress_parser.p4"
#include "atp_egress_parser.p4"
#include "egress_deparser.p4"
#include "atp_admission.p4"
#include "collided_passes.p4"
#include "entry_owner.p4"
#include "entry_tag.p4"
#include "child_stamp.p4"
#include "entry_mark.p4"
#include "worker_count.p4"
#include "exponent_maximum.p4"
#include "adder.p4"
#include "atp_verdict.p4"
#include "atp_ways.p4"
#include "l2_forwarding.p4"
#include "vlan_removal.p4"
#include "vlan_tag.p4"
#include "statistics.p4"
#include "stations.p4"

control Ingress(inout ingress_headers_t hdr,
                inout ingress_metadata_t md,
                in ingress_intrinsic_metadata_t ig_intr_md,
                in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    AtpAdmission() atp_admission;
    CollidedPasses() collided_passes;
    EntryOwner() entry_owner;
    EntryTag() entry_tag;
    ChildStamp() child_stamp;
    EntryMark() entry_mark;
    WorkerCount() worker_count;
    ExponentMaximum() exponent_maximum;
    AtpVerdict() atp_verdict;
    AtpWays() atp_ways;
    L2Forwarding() l2_forwarding;
    VlanRemoval() vlan_removal;
    Statistics() statistics;
    Adder() adder_00;
    Adder() adder_01;
    Adder() adder_02;
    Adder() adder_03;
    Adder() adder_04;
    Adder() adder_05;
    Adder() adder_06;
    Adder() adder_07;
    Adder() adder_08;
    Adder() adder_09;
    Adder() adder_10;
    Adder() adder_11;
    Adder() adder_12;
    Adder() adder_13;
    Adder() adder_14;
    Adder() adder_15;
    Adder() adder_16;
    Adder() adder_17;
    Adder() adder_18;
    Adder() adder_19;
    Adder() adder_20;
    Adder() adder_21;
    Adder() adder_22;
    Adder() adder_23;
    Adder() adder_24;
    Adder() adder_25;
    Adder() adder_26;
    Adder() adder_27;
    Adder() adder_28;
    Adder() adder_29;
    Adder() adder_30;
    Adder() adder_31;

    action begin_passage() {
        hdr.passage.setValid();
        hdr.passage.step = 0;
        hdr.passage.route = AS_IT_IS;
        hdr.passage.has_words = 0;
        hdr.passage.port = ig_intr_md.ingress_port;
    }
    action find_stamp() {
        md.stamp_index[15:5] = hdr.passage.sum_index[10:0];
        md.stamp_index[4:0] = hdr.passage.rid[4:0];
    }
    action find_job() { md.job_index = hdr.passage.rid[12:5]; }

    apply {
        if (!hdr.passage.isValid()) {
            begin_passage();
        }
        atp_admission.apply(hdr, md, ig_intr_md, ig_tm_md);
        collided_passes.apply(hdr, md);

        entry_owner.apply(hdr, md);
        if (md.kind == UDP_UPDATE) {
            find_stamp();
        }
        if (md.kind == READING_LOW || md.kind == REMEMBERING) {
            find_job();
        }

        entry_tag.apply(hdr, md);
        child_stamp.apply(hdr, md);

        worker_count.apply(hdr, md);
        entry_mark.apply(hdr, md);
        exponent_maximum.apply(hdr, md);
        adder_00.apply(hdr.low.w00, hdr.high.w00, hdr.passage.sum_index, md);
        adder_01.apply(hdr.low.w01, hdr.high.w01, hdr.passage.sum_index, md);
        adder_02.apply(hdr.low.w02, hdr.high.w02, hdr.passage.sum_index, md);
        adder_03.apply(hdr.low.w03, hdr.high.w03, hdr.passage.sum_index, md);
        adder_04.apply(hdr.low.w04, hdr.high.w04, hdr.passage.sum_index, md);
        adder_05.apply(hdr.low.w05, hdr.high.w05, hdr.passage.sum_index, md);
        adder_06.apply(hdr.low.w06, hdr.high.w06, hdr.passage.sum_index, md);
        adder_07.apply(hdr.low.w07, hdr.high.w07, hdr.passage.sum_index, md);
        adder_08.apply(hdr.low.w08, hdr.high.w08, hdr.passage.sum_index, md);
        adder_09.apply(hdr.low.w09, hdr.high.w09, hdr.passage.sum_index, md);
        adder_10.apply(hdr.low.w10, hdr.high.w10, hdr.passage.sum_index, md);
        adder_11.apply(hdr.low.w11, hdr.high.w11, hdr.passage.sum_index, md);
        adder_12.apply(hdr.low.w12, hdr.high.w12, hdr.passage.sum_index, md);
        adder_13.apply(hdr.low.w13, hdr.high.w13, hdr.passage.sum_index, md);
        adder_14.apply(hdr.low.w14, hdr.high.w14, hdr.passage.sum_index, md);
        adder_15.apply(hdr.low.w15, hdr.high.w15, hdr.passage.sum_index, md);
        adder_16.apply(hdr.low.w16, hdr.high.w16, hdr.passage.sum_index, md);
        adder_17.apply(hdr.low.w17, hdr.high.w17, hdr.passage.sum_index, md);
        adder_18.apply(hdr.low.w18, hdr.high.w18, hdr.passage.sum_index, md);
        adder_19.apply(hdr.low.w19, hdr.high.w19, hdr.passage.sum_index, md);
        adder_20.apply(hdr.low.w20, hdr.high.w20, hdr.passage.sum_index, md);
        adder_21.apply(hdr.low.w21, hdr.high.w21, hdr.passage.sum_index, md);
        adder_22.apply(hdr.low.w22, hdr.high.w22, hdr.passage.sum_index, md);
        adder_23.apply(hdr.low.w23, hdr.high.w23, hdr.passage.sum_index, md);
        adder_24.apply(hdr.low.w24, hdr.high.w24, hdr.passage.sum_index, md);
        adder_25.apply(hdr.low.w25, hdr.high.w25, hdr.passage.sum_index, md);
        adder_26.apply(hdr.low.w26, hdr.high.w26, hdr.passage.sum_index, md);
        adder_27.apply(hdr.low.w27, hdr.high.w27, hdr.passage.sum_index, md);
        adder_28.apply(hdr.low.w28, hdr.high.w28, hdr.passage.sum_index, md);
        adder_29.apply(hdr.low.w29, hdr.high.w29, hdr.passage.sum_index, md);
        adder_30.apply(hdr.low.w30, hdr.high.w30, hdr.passage.sum_index, md);
        adder_31.apply(hdr.low.w31, hdr.high.w31, hdr.passage.sum_index, md);

        // Every table from here on has a condition of its own, as in jaxina.p4.
        if (md.kind == PLAIN) {
            l2_forwarding.apply(hdr.ethernet, ig_intr_md, ig_tm_md, ig_dprsr_md);
        }
        vlan_removal.apply(hdr, md);
        atp_verdict.apply(hdr, md, ig_dprsr_md);
        statistics.apply(md);
        atp_ways.apply(hdr, md, ig_tm_md, ig_dprsr_md);
    }
}

control Egress(inout egress_headers_t hdr,
               inout egress_metadata_t md,
               in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    Stations() stations;
    VlanTag() vlan_tag;

    apply {
        stations.apply(hdr, md, eg_intr_md);
        vlan_tag.apply(hdr, eg_intr_md);
        hdr.passage.setInvalid();
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
