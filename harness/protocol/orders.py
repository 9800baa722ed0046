"""What a node is told: the difference of what it reports and what the registry wants.

So an order may be lost, repeated or late; the node's next heartbeat mends it.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.protocol.inputs import CopyOrdered, CopyPromoted, CopyRetired, Order
from harness.protocol.membership import Member
from harness.protocol.registry import Copy


def orders_for(member: Member, *, coordinator: int, cause: str) -> Iterator[Order]:
    """Whatever makes ``member`` host its copies and no others."""
    ordered: dict[int, int] = {}
    for (task, incarnation), copy in member.copies.items():
        report = member.reports.get((task, incarnation))
        if report is None:
            ordered[task] = max(incarnation, ordered.get(task, 0))
            beside = _other(member, copy)
            yield order_of(copy, beside=beside, coordinator=coordinator, cause=cause)
        elif report.term != copy.term:
            assert copy.term is not None, "a primary does not become a replica again"
            yield CopyPromoted(
                cause=cause,
                task=task,
                incarnation=incarnation,
                term=copy.term,
                coordinator=coordinator,
            )
    for task, incarnation in member.reports:
        makes_way = incarnation < ordered.get(task, 0)
        if (task, incarnation) not in member.copies and not makes_way:
            yield CopyRetired(
                cause=cause, task=task, incarnation=incarnation, coordinator=coordinator
            )


def _other(member: Member, copy: Copy) -> int | None:
    """The number of the same task's other copy on that node, if both are to be there."""
    for task, incarnation in member.copies:
        if task == copy.task and incarnation != copy.incarnation:
            return incarnation
    return None


def order_of(copy: Copy, *, beside: int | None, coordinator: int, cause: str) -> CopyOrdered:
    """What starts ``copy``."""
    return CopyOrdered(
        cause=cause,
        boot=copy.boot,
        task=copy.task,
        incarnation=copy.incarnation,
        term=copy.term,
        start=copy.start,
        position=copy.position,
        send_from=copy.send_from,
        coordinator=coordinator,
        beside=beside,
    )
