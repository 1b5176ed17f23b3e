// Keeps the turn of each slot: the epoch that the slot sums now. The turn moves on only when the sum of its pass leaves,
// to all workers or to one that asked again, because the packet for all may have been lost in the chip. So when an
// update of this epoch comes, the previous pass is complete. And the version that the update uses holds the pass before
// that one, whose result all workers have read. controller/slot_turn.py resets the register.
#ifndef JAXINA_SLOT_TURN_P4
#define JAXINA_SLOT_TURN_P4

control SlotTurn(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<turn_t, bit<10>>(SLOTS) turns;

    // The distance is 0 for an update of this turn. At -1 and -2 a version may still hold the pass. Further back the
    // update is stale, and above 0 it is ahead.
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
            if (value.turn == md.epoch) {
                value.turn = md.epoch + 1;
            }
        }
    };

    action compare_epoch() { md.distance = compare.execute(hdr.passage.slot_index[9:0]); }
    action next_turn() { advance.execute(hdr.passage.slot_index[9:0]); }

    apply {
        if (md.admitted == 1 && md.kind != CONSUMING) {
            compare_epoch();
        } else if (md.kind == READING_LOW && hdr.passage.step == LAST_STEP) {
            next_turn();
        }
    }
}

#endif
