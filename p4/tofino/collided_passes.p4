// Remembers, for a job's slot, the latest pass that found its entry taken. The rest of that pass is sent on too, even
// if the entry is free by then. Otherwise a part of the pass would wait at the server and the other part in the entry,
// until a timeout. Stage 0 reads it, before the entry's owner is asked. So the packet that found the entry taken comes
// round to write it: one packet of the pass, as with a pass that is combined. Nothing depends on it but time: a memory
// that is lost or overwritten lets a pass split.
#ifndef JAXINA_COLLIDED_PASSES_P4
#define JAXINA_COLLIDED_PASSES_P4

control CollidedPasses(inout ingress_headers_t hdr, inout ingress_metadata_t md) {
    Register<slot_pass_t, bit<12>>(MEMORIES, {0, 0}) passes;
    Hash<bit<12>>(HashAlgorithm_t.CRC16) place;

    RegisterAction<slot_pass_t, bit<12>, bit<1>>(passes) look = {
        void apply(inout slot_pass_t latest, out bit<1> result) {
            result = 0;
            if (latest.job == hdr.jaxina.job && latest.epoch == hdr.jaxina.epoch) {
                result = 1;
            }
        }
    };
    RegisterAction<slot_pass_t, bit<12>, bit<1>>(passes) write = {
        void apply(inout slot_pass_t latest) {
            latest.job = hdr.jaxina.job;
            latest.epoch = hdr.jaxina.epoch;
        }
    };

    action look_up() { md.known = look.execute(place.get({hdr.jaxina.job, hdr.jaxina.slot})); }
    action remember() { write.execute(place.get({hdr.jaxina.job, hdr.jaxina.slot})); }

    table collided {
        key = { md.kind : exact; }
        actions = { look_up; remember; NoAction; }
        const default_action = NoAction;
        const entries = {
            UDP_UPDATE : look_up();
            REMEMBERING : remember();
        }
        size = 2;
    }

    apply {
        if (hdr.jaxina.isValid()) {
            collided.apply();
        }
    }
}

#endif
