"""Links as orders for traffic control, without a network."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.cluster.links import LATENCY, LOSS, RATE, WorkerLink, able, lay, orders
from harness.errors import EnvironmentFailure, UsageError


def test_a_rate_is_a_token_bucket_with_room_for_a_tick() -> None:
    (order,) = orders(WorkerLink(bytes_per_s=10_000_000), "eth0")
    assert " ".join(order) == (
        "qdisc replace dev eth0 root tbf rate 80000000bit burst 100000 latency 400ms"
    )


def test_a_latency_is_netem_and_both_are_one_behind_the_other() -> None:
    (order,) = orders(WorkerLink(latency_s=0.02), "eth0")
    assert order[-5:] == ["netem", "delay", "20000us", "limit", "10000"]
    outer, inner = orders(WorkerLink(latency_s=0.02, bytes_per_s=1e6), "eth0")
    assert outer[4:8] == ["root", "handle", "1:", "netem"]
    assert inner[4:9] == ["parent", "1:1", "handle", "10:", "tbf"]


def test_a_loss_is_netem_too_beside_a_latency_or_alone() -> None:
    (order,) = orders(WorkerLink(loss=0.005), "eth0")
    assert order[5:] == ["netem", "loss", "0.5%", "limit", "10000"]
    outer, inner = orders(WorkerLink(loss=0.1, latency_s=0.02, bytes_per_s=1e6), "eth0")
    assert outer[7:12] == ["netem", "delay", "20000us", "loss", "10%"]
    assert "tbf" in inner


def test_no_link_takes_away_what_lay_there() -> None:
    calls: list[Sequence[str]] = []

    def tc(arguments: Sequence[str]) -> str | None:
        calls.append(arguments)
        return "there is none"

    lay(None, "eth0", tc)
    lay(WorkerLink(), "eth0", tc)
    assert calls == [["qdisc", "del", "dev", "eth0", "root"]] * 2


def test_what_a_kernel_can_do_is_tried() -> None:
    def old(arguments: Sequence[str]) -> str | None:
        return "Specified qdisc kind is unknown." if "netem" in arguments else None

    assert able("try0", old) == {RATE}
    assert able("try0", lambda arguments: None) == {RATE, LATENCY, LOSS}
    with pytest.raises(EnvironmentFailure, match="kind is unknown"):
        lay(WorkerLink(latency_s=1), "eth0", old)


@pytest.mark.parametrize(
    "wrong", [{"bytes_per_s": 0}, {"bytes_per_s": -1}, {"latency_s": -0.1}, {"loss": 1}]
)
def test_a_link_that_is_none_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        WorkerLink(**wrong)
