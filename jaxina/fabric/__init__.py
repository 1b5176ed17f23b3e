"""MLfabric: who sends which update when, over links that are unequal and change.

Workers have updates ready at different times. A scheduler plans a batch of them: the order in which the server gets
them, which are dropped because they are too old, which are added on their way at another host, and what a replica gets.
Nothing here has sockets or a clock. Times are whole nanoseconds, sizes bytes, rates bytes per second.

Source: MLfabric (Viswanathan and Akella, 2019), sections 5 and 10. Where the paper is open or wrong, `docs/mlfabric.md`
says what was decided.
"""

from jaxina.fabric.calendar import Calendar, Reservation
from jaxina.fabric.network import Star
from jaxina.fabric.ordering import Order, Policy, bounded_delay_order, shortest_first_order
from jaxina.fabric.plans import Dropped, DropReason, Group, Transfer
from jaxina.fabric.scheduler import Plan, Scheduler, Settings
from jaxina.fabric.updates import Update

__all__ = [
    "Calendar",
    "DropReason",
    "Dropped",
    "Group",
    "Order",
    "Plan",
    "Policy",
    "Reservation",
    "Scheduler",
    "Settings",
    "Star",
    "Transfer",
    "Update",
    "bounded_delay_order",
    "shortest_first_order",
]
