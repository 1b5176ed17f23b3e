"""atp.p4 with one changed line each, which some vector must find."""

from __future__ import annotations

from conformance.mutants import Mutant

# Name -> file, the original text, the text that replaces it.
_CHANGES = {
    "the fingerprint is not compared": (
        "entry_tag.p4",
        "tag.epoch == hdr.jaxina.epoch && tag.fingerprint == hdr.jaxina.fingerprint",
        "tag.epoch == hdr.jaxina.epoch",
    ),
    "passes of a slot have one key": ("atp_admission.p4", "hdr.jaxina.epoch ^ salt", "salt"),
    "jobs have equal keys": ("atp_admission.p4", "hdr.jaxina.epoch ^ salt", "hdr.jaxina.epoch"),
    "a child is added again": ("child_stamp.p4", "result = 1;", "result = 0;"),
    "a claim writes no stamp": ("child_stamp.p4", "FREE) : begin_pass();", "FREE) : NoAction();"),
    "stamps are not written": ("child_stamp.p4", "} else {\n                stamp.key = hdr.passage.key;", "} else {"),
    "a stamp is valid for ever": ("child_stamp.p4", " && md.now - stamp.added <= LIFETIME", ""),
    "an old entry is not taken": (
        "entry_owner.p4",
        "if (md.now - owner.claimed > LIFETIME)",
        "if (owner.claimed == 0)",
    ),
    "a pass joins an old entry": ("entry_owner.p4", ", md.now - owner.claimed > LIFETIME)", ", owner.claimed == 0)"),
    "a second transmission claims": (
        "entry_owner.p4",
        "(UDP_UPDATE, 1, 1, 0, _, 0x01 &&& 0x7f, _) : look_up",
        "(UDP_UPDATE, 1, 1, 0, _, 0x01 &&& 0x7f, _) : claim_entry",
    ),
    "a third transmission joins": ("entry_owner.p4", "_, 0x01 &&& 0x7f, _)", "_, 0x00 &&& 0x00, _)"),
    "a second transmission frees the entry": (
        "entry_owner.p4",
        "(UDP_UPDATE, 1, 1, 0, _, 0x01 &&& 0x7f, _) : look_up",
        "(UDP_UPDATE, 1, 1, 0, _, 0x01 &&& 0x7f, _) : release_entry",
    ),
    "a result frees any entry": (
        "entry_owner.p4",
        "if (owner.key == hdr.passage.key) {",
        "if (owner.key != 0) {",
    ),
    "a result frees nothing": ("entry_owner.p4", "0xffff) : release_entry();", "0xffff) : NoAction();"),
    "a collided pass is not remembered": (
        "atp_verdict.p4",
        "go(COLLIDED, ROUND_REMEMBERING)",
        "go(COLLIDED, UPSTREAM)",
    ),
    "a collided pass claims": (
        "entry_owner.p4",
        "(UDP_UPDATE, 1, 1, 0, 1, 0x00 &&& 0x7f, _) : look_up",
        "(UDP_UPDATE, 1, 1, 0, 1, 0x00 &&& 0x7f, _) : claim_entry",
    ),
    "all passes of a slot are remembered": (
        "collided_passes.p4",
        "latest.job == hdr.jaxina.job && latest.epoch == hdr.jaxina.epoch",
        "latest.job == hdr.jaxina.job",
    ),
    "a mark is inherited": ("entry_mark.p4", "value = md.mark;", "value = value | md.mark;"),
    "the mark of a repetition is lost": ("entry_mark.p4", "SAME_PASS) : add_mark();", "SAME_PASS) : NoAction();"),
    "a first mark is lost": ("entry_mark.p4", "md.mark = hdr.jaxina.code & CODE_MARKED;", "md.mark = 0;"),
    "high words are not added": ("adder.p4", "sum.high + high;", "high;"),
    "low words are not read": ("atp_ways.p4", "true) : read_low();", "true) : read_nothing();"),
    "a sum is a worker's": ("atp_ways.p4", "hdr.jaxina.worker = hdr.passage.group;", "md.mark = 0;"),
    "a repeated sum is a first one": ("atp_ways.p4", "md.mark | CODE_AGAIN", "md.mark"),
    "the largest exponent is lost": ("exponent_maximum.p4", "value = max(value, md.exponent);", "value = md.exponent;"),
    "a result goes to nobody": ("atp_verdict.p4", "go(REPLY, TO_CHILDREN)", "go(REPLY, TO_CHILD)"),
    "narrow words are combined": (
        "atp_ingress_parser.p4",
        "md.kind = UDP_UPDATE;\n        transition well_formed;",
        "md.kind = UDP_UPDATE;\n        transition complete;",
    ),
    "workers below are added": ("atp_admission.p4", "md.passes = passes;", "md.passes = 0;"),
    "another pass's packet gets the sum": ("atp_constants.p4", "#define REPETITION SAME_PASS", "#define REPETITION _"),
    "the count is not started": ("worker_count.p4", "value = hdr.passage.others;", ""),
    "a repetition is counted": ("worker_count.p4", "(SAME_PASS, 1) : look_up();", "(SAME_PASS, 1) : count_worker();"),
    "a complete sum is not repeated": (
        "atp_verdict.p4",
        "(UDP_UPDATE, 1, 1, _, _, _, SAME_PASS, 1, 0) : go(REPEATED, ROUND_READING);",
        "",
    ),
}
ATP_MUTANTS = {f"atp: {name}": Mutant("atp", *change) for name, change in _CHANGES.items()}
