"""One operation under way for each copy and kind."""

from __future__ import annotations

from harness.engines.tasks.operations import FIRST_WAIT_US, LONGEST_WAIT_US, Operations

KEY = ("store", 3, 1)
BEAT_US = 250_000


def middle() -> float:
    return 0.5


def test_a_stall_of_ten_seconds_repeats_nothing() -> None:
    requests = Operations(middle)
    first = requests.start(KEY, (1, 5), 0)
    assert first is not None
    for beat in range(1, 41):
        assert requests.start(KEY, (1, 5), beat * BEAT_US) is None
        assert requests.start(KEY, (1, 6), beat * BEAT_US) is None, "one at a time"
    requests.done(KEY, first)
    assert requests.start(KEY, (1, 6), 41 * BEAT_US) is not None


def test_errors_are_repeated_ever_more_slowly_with_the_same_bytes() -> None:
    requests, now, waits = Operations(middle), 0, []
    operation = requests.start(KEY, 5, now)
    assert operation is not None
    operation.data = b"encoded once"
    for _ in range(8):
        requests.failed(KEY, operation, now)
        assert requests.start(KEY, 5, now) is None
        waits.append(operation.again_us - now)
        now = operation.again_us
        assert requests.start(KEY, 5, now) is operation
        assert operation.data == b"encoded once"
    assert waits[0] == FIRST_WAIT_US
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_WAIT_US


def test_no_two_nodes_wait_equally_long() -> None:
    waits = set()
    for drawn in (0.0, 0.3, 1.0):
        requests = Operations(lambda drawn=drawn: drawn)  # type: ignore[misc]
        operation = requests.start(KEY, 5, 0)
        assert operation is not None
        requests.failed(KEY, operation, 0)
        waits.add(operation.again_us)
    assert len(waits) == 3
    assert min(waits) >= FIRST_WAIT_US // 2


def test_what_may_get_lost_is_repeated_after_its_timeout() -> None:
    requests = Operations(middle)
    assert requests.start(KEY, 5, 0, timeout_us=100) is not None
    assert requests.start(KEY, 5, 99, timeout_us=100) is None
    assert requests.start(KEY, 5, 100, timeout_us=100) is not None
    assert requests.start(KEY, 5, 299, timeout_us=100) is None
    assert requests.start(KEY, 6, 299, timeout_us=100) is not None, "the copy has moved on"


def test_an_operation_that_was_replaced_ends_nothing() -> None:
    requests = Operations(middle)
    old = requests.start(KEY, 5, 0, timeout_us=100)
    new = requests.start(KEY, 6, 0, timeout_us=100)
    assert old is not None
    assert not requests.failed(KEY, old, 0)
    requests.done(KEY, old)
    assert requests.get(KEY) is new
    requests.forget(3, 1)
    assert requests.get(KEY) is None
