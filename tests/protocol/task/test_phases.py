"""The picture of phases in docs/protocol.md is that of the table of transitions.

``python -m tests.protocol.task.test_phases`` draws it again."""

from __future__ import annotations

from pathlib import Path

from harness.protocol.task.lifecycle import TRANSITIONS, Phase

PAGE = Path(__file__).parents[3] / "docs" / "protocol.md"
BEGIN, END = "<!-- phases: begin -->\n", "<!-- phases: end -->\n"


def picture() -> str:
    """Return one arrow per pair of phases, with the inputs that lead from one to the other."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for (before, kind), after in TRANSITIONS.items():
        arrows.setdefault((before, after), []).append(kind.__name__)
    labels = {pair: ", ".join(sorted(names)) for pair, names in arrows.items()}
    width = max(map(len, labels.values()))
    order = list(Phase)
    pairs = sorted(labels, key=lambda pair: (order.index(pair[0]), order.index(pair[1])))
    lines = [
        f" {before.name:7} ── {labels[before, after]} {'─' * (width - len(labels[before, after]))}"
        f"─► {after.name}"
        for before, after in pairs
    ]
    return "\n".join(["```", *lines, "```"]) + "\n"


def test_the_picture_is_current() -> None:
    text = PAGE.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == picture()


def test_every_phase_is_reached_and_nothing_leads_out_of_the_last_ones() -> None:
    assert {*TRANSITIONS.values(), Phase.LOADING} == set(Phase)
    assert {before for before, _ in TRANSITIONS} == set(Phase) - {Phase.FENCED, Phase.FAILED}


if __name__ == "__main__":
    page = PAGE.read_text()
    start, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    PAGE.write_text(page[:start] + picture() + page[end:])
