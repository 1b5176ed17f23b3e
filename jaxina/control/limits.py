"""Limits on what strangers may make a switch hold or do.

Anybody who reaches the switch's control port may call it. Most limits are per address. An address is that of one host,
or of one IPv6 network (`jaxina.control.peer`), so users of one host share its limits.
"""

from __future__ import annotations

from jaxina._native import MAX_SLOTS

MIB = 1 << 20

# Jobs. A process group is one job; a program has a few, seldom dozens.
MAX_JOBS = 4096
JOBS_PER_ADDRESS = 256
MAX_UNJOINED = 1024
UNJOINED_PER_ADDRESS = 64
UNJOINED_LIFE = 30.0  # seconds that a job waits for its first Join; the leader joins as soon as it has the job
MAX_TIMEOUT = 86400.0  # seconds; the longest timeout that a job may ask for

# Memory of pools, in bytes. The data plane has its own limit for all addresses together.
POOL_PER_ADDRESS = 192 * MIB

CONTACT_BYTES = 96  # of an address from which a job's packets come, as the data plane keeps it

# Making a job takes time from the data path, and the more the larger the pool. So making jobs is limited in bytes: a
# job counts as JOB_COST bytes plus its pool, and so does a part of a job that the switch assists.
JOB_COST = MIB
MAKING_PER_ADDRESS = (1024 * MIB, 32 * MIB)  # at once, and per second
MAKING_IN_ALL = (4096 * MIB, 128 * MIB)

# Queue pairs. A worker connects once, when it makes its endpoint.
CONNECTS_PER_WORKER = 2  # at once
CONNECTS_PER_JOB = 1.0  # per second, after those
CONNECTS_IN_ALL = (4096, 64)  # at once, and per second

# Streams: sessions of workers, one per process and job.
WAITING_PER_ADDRESS = 256  # streams that have not sent their Join, or that wait for the state of a later generation
MAX_WAITING = 2048
JOIN_WITHIN = 10.0  # seconds from the start of the stream
SESSIONS_PER_ADDRESS = 2048
MAX_SESSIONS = 16384
STAY = 30.0  # seconds that a stream stays open for a worker that has left and waits for the others
STREAMS_PER_CONNECTION = 2048
ASSISTED_PER_ADDRESS = 256  # jobs that the switch combines, or is a server of
MAX_ASSISTED = 4096
HANDSHAKE = 10.0  # seconds until a connection that does not speak HTTP/2 is closed

# Calls. A session counts as one.
CALLS_PER_ADDRESS = (4096, 200)  # at once, and per second

# Questions to the data plane. Its threads answer them between packets.
ASK_EVERY = 0.4  # seconds between two askings of the same question
ASK_SHARE = (0.1, 0.1)  # seconds of the data plane's time: at once, and per second

# Messages.
MAX_MESSAGE_BYTES = 4 * (MAX_SLOTS + 1) + 4096  # the queue pairs of a job with the most slots
MAX_SESSION_BYTES = 16384  # one message of a session
MAX_ASSIST_BYTES = 262144  # a request for assistance
MAX_REPLY_BYTES = 16 * MIB  # the largest reply that a client accepts
MAX_HOST = 255  # characters
MAX_TEXT = 1000
MAX_STATISTICS = 32  # names
MAX_NAME = 32  # characters
LISTED_WORKERS = 2048  # in one answer to Status; of jobs beyond them it tells only the counts
