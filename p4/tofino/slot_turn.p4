// The epoch that a slot sums now. It moves on when a result leaves, so an update of that epoch finds the pass before it
// complete, and of the version that it uses the pass before last: read by all. controller/slot_turn.py resets it.
#ifndef JAXINA_SLOT_TURN_P4
#define JAXINA_SLOT_TURN_P4

control SlotTurn(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<turn_t, bit<10>>(SLOTS) turns;

    // 0: this turn's. -1 and -2: a pass that a version may still hold. Further back: stale. Above 0: ahead.
    RegisterAction<turn_t, bit<10>, bit<32>>(turns) compare = {
        void apply(inout turn_t value, out bit<32> distance) {
#ifdef MUTANT_NO_EPOCH_CHECK
            distance = 0;
#else
            value.distance = md.epoch - value.turn;
            distance = value.distance;
#endif
        }
    };
    RegisterAction<turn_t, bit<10>, bit<32>>(turns) advance = {
        void apply(inout turn_t value) {
            value.turn = md.epoch + 1;
        }
    };

    action compare_epoch() { md.distance = compare.execute(hdr.passage.slot_index[9:0]); }
    action next_turn() { advance.execute(hdr.passage.slot_index[9:0]); }

    apply {
        if (md.admitted == 1) {
            compare_epoch();
        } else if (md.kind == READING_LOW && hdr.passage.step == LAST_STEP && hdr.passage.outcome == RESULT) {
            next_turn();
        }
    }
}

#endif
