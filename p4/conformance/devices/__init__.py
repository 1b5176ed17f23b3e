"""What vectors can be sent to."""

# Of the software switch. What a vector may need:
#   checksum   the CRC of datagrams, and the ICRC, are checked and written
#   short      passes of any number of words, not only 0 and a whole chunk
#   blocks     chunks of several blocks
#   sizes      an update is compared with the sizes of its pass's first one
#   mismatch   a contradiction ends the job by a packet
#   rdma       queue pairs; messages: of several packets
#   verdicts   of the counters only a job's that say what became of its well-formed packets
#   first_epoch  slots can begin with any epoch
ABILITIES = frozenset(
    {
        *("notices", "rdma_notices", "counters"),
        *("checksum", "short", "blocks", "sizes", "mismatch", "rdma", "messages"),
    }
)
# p4/README.md, "Terms that differ from the software switch". The large size sends fewer notices.
TOFINO = {64: frozenset({"notices", "verdicts", "rdma"}), 256: frozenset({"verdicts", "rdma"})}
