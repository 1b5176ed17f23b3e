// Keeps whether a packet of an entry's pass came with a mark: a queue has formed on its way. The next owner of the
// entry begins without.
#ifndef JAXINA_ENTRY_MARK_P4
#define JAXINA_ENTRY_MARK_P4

control EntryMark(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<bit<8>, bit<11>>(ENTRIES) marks;

    RegisterAction<bit<8>, bit<11>, bit<8>>(marks) start = {
        void apply(inout bit<8> value, out bit<8> result) {
            value = md.mark;
            result = value;
        }
    };
    RegisterAction<bit<8>, bit<11>, bit<8>>(marks) add = {
        void apply(inout bit<8> value, out bit<8> result) {
            value = value | md.mark;
            result = value;
        }
    };

    action find_mark() { md.mark = hdr.jaxina.code & CODE_MARKED; }
    action start_pass() { md.mark = start.execute(hdr.passage.sum_index[10:0]); }
    action add_mark() { md.mark = add.execute(hdr.passage.sum_index[10:0]); }

    table entry {
        key = {
            md.kind : exact;
            md.opened : exact;
        }
        actions = { start_pass; add_mark; NoAction; }
        const default_action = NoAction;
        const entries = {
            (UDP_UPDATE, OTHER_PASS) : start_pass();
            (UDP_UPDATE, SAME_PASS) : add_mark();
        }
        size = 2;
    }

    apply {
        if (md.kind == UDP_UPDATE && hdr.jaxina.isValid()) {
            find_mark();
        }
        entry.apply();
    }
}

#endif
