"""What members tell the keeper of an elastic team, and what it tells them."""

from __future__ import annotations

import collections

from jaxina.elastic import elastic_pb2 as pb
from jaxina.elastic.membership import Rules
from jaxina.elastic.roster import Phase, Roster


def join(roster, now=0.0, step=0, until=0, **terms):
    return roster.join(pb.Join(host="h", pid=7, address="127.0.0.1:1", terms=terms, step=step, until=until), now).number


def take(roster):
    """What the roster has told since the last call, by member."""
    told = collections.defaultdict(list)
    while roster.outbox:
        number, message = roster.outbox.popleft()
        told[number].append(message)
    return told


def kinds(messages):
    return [message.WhichOneof("kind") for message in messages]


def running(members=3, least=1, until=0, **rules):
    """A roster whose members have all begun to compute step 0."""
    roster = Roster(Rules(members, least, **rules))
    for _ in range(members):
        join(roster, until=until)
    for number in range(members):
        roster.ready(number, 1, 0.0)
    assert roster.phase is Phase.RUNNING
    take(roster)
    return roster


def begin(roster, now=0.0):
    """Makes all members of the new generation ready."""
    generation = roster.generation
    for number in list(roster.current):
        roster.ready(number, generation, now)


def vote(roster, *numbers, digest=b"", now=0.0):
    for number in numbers:
        roster.vote(number, roster.generation, roster.step, digest, now)
