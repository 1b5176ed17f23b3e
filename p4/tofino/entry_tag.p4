// Keeps which pass each entry holds (the epoch) and what it sums (the fingerprint). The packet that claims an entry
// writes both. All others of the pass must have the same.
#ifndef JAXINA_ENTRY_TAG_P4
#define JAXINA_ENTRY_TAG_P4

control EntryTag(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<tag_t, bit<11>>(ENTRIES, {0, 0}) tags;

    RegisterAction<tag_t, bit<11>, compared_t>(tags) open = {
        void apply(inout tag_t tag) {
            tag.epoch = hdr.jaxina.epoch;
            tag.fingerprint = hdr.jaxina.fingerprint;
        }
    };
    RegisterAction<tag_t, bit<11>, compared_t>(tags) compare = {
        void apply(inout tag_t tag, out compared_t result) {
            result = 0;
            if (tag.epoch == hdr.jaxina.epoch && tag.fingerprint == hdr.jaxina.fingerprint) {
                result = SAME_PASS;
            }
        }
    };

    action open_entry() {
        open.execute(hdr.passage.sum_index[10:0]);
        md.opened = OTHER_PASS;
    }
    action compare_pass() { md.opened = compare.execute(hdr.passage.sum_index[10:0]); }

    table tag {
        key = {
            md.may_claim : ternary;
            md.owned : exact;
        }
        actions = { open_entry; compare_pass; NoAction; }
        const default_action = NoAction;
        const entries = {
            (1, FREE) : open_entry();
            (1, EXPIRED) : open_entry();
            (_, HELD) : compare_pass();
        }
        size = 4;
    }

    apply { tag.apply(); }
}

#endif
