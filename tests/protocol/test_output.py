"""A reader of an output partition takes valid records and drops the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.protocol.effects import Kind, OutputRecord
from harness.protocol.output import OutputBatch, OutputEntry, OutputFence, OutputReader


def stable(batch: int) -> OutputRecord:
    return OutputRecord(kind=Kind.STABLE, batch=batch, payload=batch)


def batch(term: int, sequence: int, *records: OutputRecord) -> OutputBatch:
    return OutputBatch(term=term, sequence=sequence, records=records)


def read(*entries: OutputEntry) -> list[OutputRecord]:
    reader = OutputReader()
    return [record for entry in entries for record in reader.accept(entry)]


ONE, THREE, TWO = (OutputFence(term=term) for term in (1, 3, 2))


@pytest.mark.parametrize(
    ("entries", "batches"),
    [
        pytest.param([batch(1, 1, stable(0))], [], id="nobody writes without a fence"),
        pytest.param([ONE, batch(2, 1, stable(0))], [], id="nor with that of another term"),
        pytest.param(
            [
                ONE, batch(1, 1, stable(0)), THREE, batch(1, 2, stable(1)), TWO,
                batch(2, 1, stable(1)), batch(3, 1, stable(1)),
            ],
            [0, 1],
            id="an older term does not write behind a newer one's fence",
        ),
        pytest.param(
            [ONE, batch(1, 1, stable(0)), batch(1, 1, stable(0)), batch(1, 2, stable(1))],
            [0, 1],
            id="what was appended twice is taken once",
        ),
        pytest.param(
            [ONE, batch(1, 1, stable(0)), ONE, batch(1, 1, stable(1)), batch(1, 2, stable(1))],
            [0, 1],
            id="a fence that is repeated does not count from one again",
        ),
        pytest.param(
            [
                ONE, batch(1, 1, stable(0)), OutputFence(term=2, records=(stable(0), stable(1))),
                batch(1, 2, stable(1)), batch(2, 1, stable(2)),
            ],
            [0, 1, 2],
            id="a fence brings what the partition lacks",
        ),
        pytest.param(
            [OutputFence(term=1, records=(stable(1),))],
            [],
            id="a fence brings nothing behind a gap",
        ),
    ],
)  # fmt: skip
def test_what_a_reader_takes(entries: list[OutputEntry], batches: list[int]) -> None:
    assert read(*entries) == [stable(number) for number in batches]


def test_a_fence_brings_nothing_behind_tentative_output() -> None:
    reader = OutputReader()
    reader.accept(OutputFence(term=1))
    reader.accept(batch(1, 1, OutputRecord(kind=Kind.TENTATIVE, batch=0)))
    assert reader.accept(OutputFence(term=2, records=(stable(0),))) == (), "an undo comes first"
    assert (reader.term, reader.next_stable, reader.repeated) == (2, 0, 0)


@given(
    st.lists(
        st.builds(
            OutputFence,
            term=st.integers(0, 4),
            records=st.integers(0, 9).map(lambda b: (stable(b),)),
        )
        | st.builds(
            OutputBatch,
            term=st.integers(0, 4),
            sequence=st.integers(1, 3),
            records=st.integers(0, 9).map(lambda b: (stable(b),)),
        )
    )
)
def test_terms_that_write_never_fall_and_no_number_is_taken_twice(
    entries: list[OutputEntry],
) -> None:
    reader = OutputReader()
    taken, batches = [], list[int]()
    for entry in entries:
        records = reader.accept(entry)
        batches += [record.batch for record in records]
        if records:
            taken.append((entry.term, entry.sequence if isinstance(entry, OutputBatch) else 0))
    assert taken == sorted(set(taken))
    assert batches == sorted(set(batches)), "each batch once, in order"


def test_of_two_writers_with_one_term_the_first_to_fence_may_write() -> None:
    """A registry that lost its last second gives a term twice."""
    entries = (
        OutputFence(term=1, nonce=7),
        OutputBatch(term=1, nonce=7, sequence=1, records=(stable(0),)),
        OutputFence(term=1, nonce=8),
        OutputBatch(term=1, nonce=8, sequence=1, records=(stable(0),)),
        OutputBatch(term=1, nonce=8, sequence=2, records=(stable(9),)),
        OutputBatch(term=1, nonce=7, sequence=2, records=(stable(1),)),
    )
    assert read(*entries) == [stable(0), stable(1)]


def test_what_is_stable_already_is_dropped_and_counted() -> None:
    reader = OutputReader()
    late = OutputRecord(kind=Kind.TENTATIVE, batch=0, payload=9)
    reader.accept(OutputFence(term=1))
    reader.accept(batch(1, 1, stable(0), stable(1)))
    assert reader.accept(batch(1, 2, stable(0), late, stable(1), stable(2))) == (stable(2),)
    assert (reader.next_stable, reader.next_tentative, reader.repeated) == (3, 3, 2)


def test_a_reader_goes_on_where_another_one_was() -> None:
    first, second = OutputReader(), OutputReader()
    first.accept(OutputFence(term=4, nonce=2))
    first.accept(OutputBatch(term=4, nonce=2, sequence=1, records=(stable(0),)))
    second.begin(first.end(17))
    assert second.end(17) == first.end(17)
    assert second.accept(batch(4, 2, stable(1))) == (), "another writer's"
    following = OutputBatch(term=4, nonce=2, sequence=2, records=(stable(1),))
    assert second.accept(following) == (stable(1),)
