// Keeps a stamp for each child and entry: the key of the pass that the child last contributed to, and when. While a
// pass holds an entry, its stamps get its own key only, since only packets that find this key in the entry come here.
// And what was added since the entry was claimed is not older than the lifetime. So a child is counted at most once. A
// stamp that is left from an earlier claim of the same pass, less than a lifetime ago, makes a packet count as a
// repetition. Then the sum stays incomplete, and the third transmission goes to the server.
#ifndef JAXINA_CHILD_STAMP_P4
#define JAXINA_CHILD_STAMP_P4

control ChildStamp(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<child_stamp_t, bit<16>>(CHILD_STAMPS, {0, 0}) stamps;

    RegisterAction<child_stamp_t, bit<16>, bit<1>>(stamps) begin = {
        void apply(inout child_stamp_t stamp) {
            stamp.key = hdr.passage.key;
            stamp.added = md.now;
        }
    };
    RegisterAction<child_stamp_t, bit<16>, bit<1>>(stamps) mark = {
        void apply(inout child_stamp_t stamp, out bit<1> result) {
            result = 0;
            if (stamp.key == hdr.passage.key && md.now - stamp.added <= LIFETIME) {
                result = 1;
            } else {
                stamp.key = hdr.passage.key;
                stamp.added = md.now;
            }
        }
    };

    action begin_pass() { begin.execute(md.stamp_index); }
    action mark_child() { md.contributed = mark.execute(md.stamp_index); }

    table stamp {
        key = {
            md.kind : exact;
            md.may_claim : ternary;
            md.owned : exact;
        }
        actions = { begin_pass; mark_child; NoAction; }
        const default_action = NoAction;
        const entries = {
            (UDP_UPDATE, 1, FREE) : begin_pass();
            (UDP_UPDATE, 1, EXPIRED) : begin_pass();
            (UDP_UPDATE, _, HELD) : mark_child();
        }
        size = 4;
    }

    apply { stamp.apply(); }
}

#endif
