"""Output fidelity and internal completeness one task at a time, straight from the equations.

Slow on purpose and shares no code with `harness.topology.fidelity`."""

from __future__ import annotations

from collections.abc import Sequence

from harness.topology.model import Topology


def _losses(topology: Topology, alive: Sequence[bool], *, joins: bool) -> list[float]:
    loss = [0.0] * topology.task_count
    for name in topology.order:
        operator = topology.operator(name)
        for index in range(operator.parallelism):
            task = topology.task(name, index)
            if not alive[task]:
                loss[task] = 1.0
                continue
            streams: list[tuple[float, float]] = []
            for edge in topology.inputs(name):
                substreams = topology.substreams(edge).tocoo()
                received = [
                    (float(rate), loss[topology.task(edge.upstream, int(up))])
                    for up, down, rate in zip(*substreams.coords, substreams.data, strict=True)
                    if down == index
                ]
                total = sum(rate for rate, _ in received)
                if total == 0:  # nothing flows: every substream counts the same
                    received = [(1.0, lost) for _, lost in received]
                stream_loss = sum(r * lost for r, lost in received) / sum(r for r, _ in received)
                streams.append((total, stream_loss))
            loss[task] = _combine(streams, join=joins and operator.join)
    return loss


def _combine(streams: list[tuple[float, float]], *, join: bool) -> float:
    if not streams:
        return 0.0
    if join:
        surviving = 1.0
        for _, lost in streams:
            surviving *= 1 - lost
        return 1 - surviving
    total = sum(rate for rate, _ in streams)
    if total == 0:
        return sum(lost for _, lost in streams) / len(streams)
    return sum(rate * lost for rate, lost in streams) / total


def output_fidelity(topology: Topology, alive: Sequence[bool]) -> list[float]:
    """Compute equation 4 for each query."""
    loss = _losses(topology, alive, joins=True)
    result = []
    for query in topology.queries:
        rates = topology.output_rates(query.sink)
        first = topology.tasks(query.sink).start
        lost = sum(float(rate) * loss[first + task] for task, rate in enumerate(rates))
        result.append(1 - lost / float(rates.sum()))
    return result


def internal_completeness(topology: Topology, alive: Sequence[bool]) -> float:
    """Return the input rate of living tasks, divided by that of all tasks without failure."""
    out = [0.0] * topology.task_count
    processed = 0.0
    for name in topology.order:
        operator = topology.operator(name)
        for index in range(operator.parallelism):
            arriving = float(operator.rate[index]) if operator.rate is not None else 0.0
            for edge in topology.inputs(name):
                shares = topology.shares(edge).tocoo()
                for up, down, share in zip(*shares.coords, shares.data, strict=True):
                    if down == index:
                        arriving += out[topology.task(edge.upstream, int(up))] * float(share)
            task = topology.task(name, index)
            if alive[task]:
                out[task] = operator.selectivity * arriving
                processed += arriving
    return processed / float(topology.task_input_rates.sum())
