"""What strangers may make a switch hold or do. Anybody who reaches its control port may ask; an
address is one host's, or one IPv6 network's (`peer.py`), so that users of one host share its part.
"""

from __future__ import annotations

from jaxina._native import MAX_SLOTS

MIB = 1 << 20

# Jobs. A process group is one job; a program has a few, seldom dozens.
MAX_JOBS = 4096
JOBS_PER_ADDRESS = 256
MAX_UNJOINED = 1024
UNJOINED_PER_ADDRESS = 64
UNJOINED_LIFE = 30.0  # seconds until the first Join; the leader joins as soon as it has the job
MAX_TIMEOUT = 86400.0  # seconds; of a job's own times

# Memory of pools, in bytes. For all together the data plane has its own limit.
POOL_PER_ADDRESS = 192 * MIB

# Making a job costs the data path a moment that grows with the pool. A job counts as this many
# bytes and its pool.
JOB_COST = MIB
MAKING_PER_ADDRESS = (1024 * MIB, 32 * MIB)  # at once, and per second
MAKING_IN_ALL = (4096 * MIB, 128 * MIB)

# Queue pairs. A worker connects once, when it makes its endpoint.
CONNECTS_PER_WORKER = 2  # at once
CONNECTS_PER_JOB = 1.0  # per second, beyond those
CONNECTS_IN_ALL = (4096, 64)  # at once, and per second

# Streams: sessions of workers, one per process and job.
WAITING_PER_ADDRESS = 256  # that have not sent their Join
MAX_WAITING = 2048
JOIN_WITHIN = 10.0  # seconds
SESSIONS_PER_ADDRESS = 2048
MAX_SESSIONS = 16384
STREAMS_PER_CONNECTION = 2048
HANDSHAKE = 10.0  # seconds until a connection that does not speak HTTP/2 is closed

# Calls, sessions among them.
CALLS_PER_ADDRESS = (4096, 200)  # at once, and per second

# Questions to the data plane: its threads answer them between packets.
ASK_EVERY = 0.4  # seconds, for each question
ASK_SHARE = (0.1, 0.1)  # seconds of its time at once, and per second

# Messages.
MAX_MESSAGE_BYTES = 4 * (MAX_SLOTS + 1) + 4096  # the queue pairs of a job with the most slots
MAX_SESSION_BYTES = 16384  # one message of a session
MAX_REPLY_BYTES = 16 * MIB  # that a client takes
MAX_HOST = 255  # characters
MAX_TEXT = 1000
MAX_STATISTICS = 32  # names
MAX_NAME = 32  # characters
LISTED_WORKERS = 2048  # in one answer to Status; jobs beyond them are told in brief
