// Keeps who owns each entry, and since when. One access claims an entry that is free or too old, finds out whose it is,
// or frees it. The key is short, so it may be equal for two passes; EntryTag compares the rest. Jobs share the
// register.
//
// A free entry is one that was claimed at time 0. Times wrap after 78 hours. For a lifetime after that, free entries
// seem taken, and passes are sent on.
#ifndef JAXINA_ENTRY_OWNER_P4
#define JAXINA_ENTRY_OWNER_P4

control EntryOwner(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<owner_t, bit<11>>(ENTRIES, {0, 0}) owners;

    RegisterAction<owner_t, bit<11>, owned_t>(owners) claim = {
        void apply(inout owner_t owner, out owned_t result) {
            result = this.predicate(owner.key == hdr.passage.key, md.now - owner.claimed > LIFETIME);
            if (md.now - owner.claimed > LIFETIME) {
                owner.key = hdr.passage.key;
                owner.claimed = md.now;
            }
        }
    };
    RegisterAction<owner_t, bit<11>, owned_t>(owners) look = {
        void apply(inout owner_t owner, out owned_t result) {
            result = this.predicate(owner.key == hdr.passage.key, md.now - owner.claimed > LIFETIME);
        }
    };
    RegisterAction<owner_t, bit<11>, owned_t>(owners) release = {
        void apply(inout owner_t owner) {
            if (owner.key == hdr.passage.key) {
                owner.claimed = 0;
            }
        }
    };

    action claim_entry() {
        md.owned = claim.execute(hdr.passage.sum_index[10:0]);
        md.may_claim = 1;
    }
    action look_up() { md.owned = look.execute(hdr.passage.sum_index[10:0]); }
    action release_entry() { release.execute(hdr.passage.sum_index[10:0]); }

    // A first transmission may claim the entry, and a second one may only join it. The others go to the server as they
    // are, and so do other chunks than whole ones. A pass is sent on as a whole if one of its packets has been. The
    // result of a pass frees its entry, if it is for all.
    table owner {
        key = {
            md.kind : exact;
            md.admitted : ternary;
            md.whole : ternary;
            md.passes : ternary;
            md.known : ternary;
            hdr.jaxina.code : ternary;
            hdr.jaxina.worker : ternary;
        }
        actions = { claim_entry; look_up; release_entry; NoAction; }
        const default_action = NoAction;
        const entries = {
            (UDP_UPDATE, 1, 1, 0, 0, 0x00 &&& 0x7f, _) : claim_entry();
            (UDP_UPDATE, 1, 1, 0, 1, 0x00 &&& 0x7f, _) : look_up();
            (UDP_UPDATE, 1, 1, 0, _, 0x01 &&& 0x7f, _) : look_up();
            (RESULT_PASSING, 1, _, _, _, _, 0xffff) : release_entry();
            (READING_LOW, _, _, _, _, _, _) : look_up();
        }
        size = 8;
    }

    apply { owner.apply(); }
}

#endif
