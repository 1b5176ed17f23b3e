// Keeps the next packet sequence number of every queue pair that the switch writes on. controller/sequence_number.py
// sets it when a worker connects.
#ifndef JAXINA_SEQUENCE_NUMBER_P4
#define JAXINA_SEQUENCE_NUMBER_P4

control SequenceNumber(inout egress_headers_t hdr, inout egress_metadata_t md) {
    Register<bit<32>, bit<15>>(STAMPS) numbers;

    RegisterAction<bit<32>, bit<15>, bit<32>>(numbers) next = {
        void apply(inout bit<32> number, out bit<32> result) {
            result = number;
            number = number + 1;
        }
    };

    action find_queue() {
        md.queue[14:5] = hdr.passage.slot_index[9:0];
        md.queue[4:0] = md.rid[4:0];
    }
    action take_number() { md.number = next.execute(md.queue); }
    action write_number() { hdr.bth.psn = md.number[23:0]; }

    apply {
        find_queue();
        take_number();
        write_number();
    }
}

#endif
