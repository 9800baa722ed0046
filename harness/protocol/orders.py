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
    for task, copy in member.copies.items():
        report = member.reports.get(task)
        if report is None or report.incarnation < copy.incarnation:
            yield order_of(copy, coordinator=coordinator, cause=cause)
        elif report.incarnation == copy.incarnation and report.term != copy.term:
            assert copy.term is not None, "a primary does not become a replica again"
            yield CopyPromoted(
                cause=cause,
                task=task,
                incarnation=copy.incarnation,
                term=copy.term,
                coordinator=coordinator,
            )
    for task, report in member.reports.items():
        if task not in member.copies:
            yield CopyRetired(
                cause=cause,
                task=task,
                incarnation=report.incarnation,
                coordinator=coordinator,
            )


def order_of(copy: Copy, *, coordinator: int, cause: str) -> CopyOrdered:
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
    )
