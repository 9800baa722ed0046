"""Child processes: their events arrive, and their end is reported."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.child import Child, Event, aside, end_with_parent, orders, speaker
from harness.errors import EnvironmentFailure

WITHIN_S = 60


def main() -> None:
    """Run the child, which repeats each order until another kind of order comes."""
    events = os.dup(1)
    emit = speaker()
    print("this belongs in the log")
    for order in orders():
        match order["do"]:
            case "repeat":
                emit({"event": "repeated", "what": order["what"]})
            case "tear":
                os.write(events, order["words"].encode())
                os.kill(os.getpid(), signal.SIGKILL)
            case "fail":
                raise RuntimeError("it was told to")
            case "stay":
                end_with_parent()
                emit({"event": "staying"})
                while True:
                    sys.stdout.flush()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    made = Child(
        "tests.test_child", name="the echo", log=tmp_path / "log", remedy="look into the log"
    )
    yield made
    made.stop(within_s=WITHIN_S)
    made.stop(within_s=WITHIN_S)
    assert made.exit_code is not None


def test_orders_go_in_and_events_come_out_in_order(child: Child) -> None:
    for what in ("a", "b", "c"):
        child.send({"do": "repeat", "what": what})
    child.wait_for("the last one", lambda e: e.get("what") == "c", within_s=WITHIN_S)
    assert [e["what"] for e in child.since(0, "repeated")] == ["a", "b", "c"]
    assert child.newest("repeated") == {"event": "repeated", "what": "c"}
    assert child.newest("never") is None


def test_each_event_of_a_kind_comes_once_also_where_two_are_equal(child: Child) -> None:
    repeated = child.each("it", "repeated", within_s=WITHIN_S)
    for what in ("a", "a", "b"):
        child.send({"do": "repeat", "what": what})
        assert next(repeated)["what"] == what
    child.send({"do": "fail"})
    with pytest.raises(EnvironmentFailure, match="waiting for it"):
        next(repeated)


def test_who_does_not_read_stops_nobody() -> None:
    read, may_read, told = threading.Event(), threading.Event(), list[Event]()

    def emit(event: Event) -> None:
        read.set()
        may_read.wait(WITHIN_S)
        told.append(event)
        read.set()

    say = aside(emit, most=2)
    say({"event": "first"})
    assert read.wait(WITHIN_S)
    for number in range(5):
        say({"event": "more", "number": number})
    may_read.set()
    while len(told) < 4:
        read.wait(0.01)
    assert {"event": "dropped", "count": 3} in told
    assert [event["number"] for event in told if event["event"] == "more"] == [0, 1]


def test_a_child_that_was_killed_has_reported_no_error(child: Child) -> None:
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(WITHIN_S)
    assert child.error is None
    assert child.exit_code == -signal.SIGKILL


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param('{"event": "repea', None, id="killed as it wrote an event"),
        pytest.param("no event\n", "a line of its output is no event", id="a line of another kind"),
    ],
)
def test_a_child_whose_last_words_are_no_event_is_waited_for_no_longer(
    child: Child, words: str, error: str | None
) -> None:
    child.send({"do": "tear", "words": words})
    with pytest.raises(EnvironmentFailure, match="waiting for an answer: it gave up"):
        child.wait_for("an answer", lambda e: e["event"] == "repeated", within_s=WITHIN_S)
    assert child.error is None if error is None else error in str(child.error)


def test_a_child_that_dies_says_how(child: Child) -> None:
    child.send({"do": "fail"})
    with pytest.raises(EnvironmentFailure) as caught:
        child.wait_for("an answer", lambda e: e["event"] == "repeated", within_s=WITHIN_S)
    assert "the echo: waiting for an answer" in str(caught.value)
    assert child.wait(WITHIN_S)
    failure = str(child.failure("it ended"))
    assert "exit code 1" in failure
    assert "it was told to" in failure, "the traceback is in its log"


def test_a_busy_child_ends_with_its_parent(child: Child) -> None:
    child.send({"do": "stay"})
    child.wait_for("it to be busy", lambda e: e["event"] == "staying", within_s=WITHIN_S)
    used = child.used()
    assert used is not None
    assert used[1] > 0
    child.hang_up()
    assert child.wait(WITHIN_S)
    assert child.exit_code == 1


if __name__ == "__main__":
    main()


def test_half_an_order_is_the_end_of_the_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"order": "begin"}\n{"order": "en'))
    assert list(orders()) == [{"order": "begin"}]


def test_an_order_to_a_dead_child_is_an_error(child: Child) -> None:
    child.hang_up()
    with pytest.raises(EnvironmentFailure, match="takes no order"):
        child.send({"do": "repeat", "what": "x"})
