// Keeps, for each version, which pass it holds (the epoch) and what that pass sums (the fingerprint). The first update
// of a pass writes both; all others must have the same. controller/pass_tag.py resets the register.
#ifndef JAXINA_PASS_TAG_P4
#define JAXINA_PASS_TAG_P4

control PassTag(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<tag_t, bit<11>>(VERSIONS) tags;

    // For an update of the slot's turn: it may begin a pass.
    RegisterAction<tag_t, bit<11>, compared_t>(tags) open = {
        void apply(inout tag_t tag, out compared_t result) {
            result = this.predicate(tag.epoch != md.epoch, tag.fingerprint != md.fingerprint);
            if (tag.epoch != md.epoch) {
                tag.epoch = md.epoch;
                tag.fingerprint = md.fingerprint;
            }
        }
    };
    // For any other update: it changes nothing.
    RegisterAction<tag_t, bit<11>, compared_t>(tags) look = {
        void apply(inout tag_t tag, out compared_t result) {
            result = this.predicate(tag.epoch != md.epoch, tag.fingerprint != md.fingerprint);
        }
    };

    action open_pass() { md.opened = open.execute(hdr.passage.sum_index[10:0]); }
    action look_up() { md.found = look.execute(hdr.passage.sum_index[10:0]); }

    apply {
        if (md.admitted == 1) {
            if (md.distance == 0) {
                open_pass();
            } else {
                look_up();
            }
        }
    }
}

#endif
