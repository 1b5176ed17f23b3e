"""The devices that vectors can be sent to, and their abilities."""

# The abilities of the software switch. Those that a vector may need, or that decide what is compared, are:
#   checksum     the device checks and writes the CRC of datagrams, and the ICRC
#   short        passes may have any number of words, not only 0 or a whole chunk
#   blocks       chunks may have several blocks
#   sizes        an update's sizes and format are compared with those of the first update of its pass, or of its job
#   mismatch     a contradiction ends the job by a packet
#   rdma         the device has queue pairs
#   messages     RDMA messages may have several packets
#   narrow       passes may have words of 8 or 16 bits, and RDMA messages a check
#   verdicts     of the counters, only those of a job that say what became of its well-formed packets
#   first_epoch  slots can begin with any epoch
#   combine      the device is a switch that combines updates, and no aggregator. Time can pass for it
ABILITIES = frozenset(
    {
        *("notices", "rdma_notices", "counters"),
        *("checksum", "short", "blocks", "sizes", "mismatch", "rdma", "messages", "narrow"),
    }
)
# The abilities of the Tofino program: p4/README.md, "Terms that differ from the software switch". The larger programs
# send fewer notices.
TOFINO = {
    64: frozenset({"notices", "verdicts", "rdma"}),
    128: frozenset({"verdicts", "rdma"}),
    256: frozenset({"verdicts", "rdma"}),
}
# Of switches that combine updates: in software, and the Tofino program atp.p4.
COMBINER = frozenset({"combine", "notices", "counters", "checksum", "short"})
ATP_ON_TOFINO = frozenset({"combine", "notices", "verdicts"})
