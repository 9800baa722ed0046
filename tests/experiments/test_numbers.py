"""Numbers in the words of an experiment are parameters or the papers', never copied results.

A number in a note or in a reason must be a constant of the code (a parameter, a limit), a number of
the experiment's grid, or stand in a sentence that attributes it to the paper. A number that was
measured belongs into the finding of a claim, which is made from the records."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.experiment import Experiment
from harness.results.provenance import ROOT
from harness.results.reach import reached
from harness.running.discovery import all_experiments

NUMBER = re.compile(r"(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\w]*[a-zA-Z]\d)")
NAMES = re.compile(
    r"(?:Figures?|Fig\.|Tables?|Section|section|sections|Algorithm|Property|equations?|line|lines"
    r"|rows?|Row|Q|top|Flink|schema|Server|day|June|PPA-|Active-|CKP-|O|TKDE:?|MC-)"
    r"[ -]?\d[\d.]*[a-z]?(?:(?:, | and | to )\d[\d.]*)*"
    r"|\d+(?:-\d+)+|\b[a-z]+(?:-[a-z0-9]+)*/[a-z0-9-]+|[\w/]+\.py|95 % (?:confidence )?intervals?"
    r"|\((?:[\w. ]*, )?\d{4}\)|\b(?:19|20)\d\d World Cup|et al\., \d{4}"
    r"|99th percentile|\b\d+ %? ?of (?:the )?paper"
)
"""Names that contain a number: of a figure, a query, a scheme, a file."""
THEIRS = re.compile(
    r"\b(paper|papers|papers'|print|printed|prints|publish|published|van Dongen|since version)\b"
)
"""Words that attribute the numbers of a sentence to somebody else."""
SCALES = (1.0, 1e2, 1e3, 1e6, 1e-6)
"""Units: percent, thousandths, millionths, minutes, hours, bits."""
PARAMETERS = ("experiments", "workloads", "datasets", "harness.stock_kills")
SETTINGS = ("harness.engines", "harness.judging", "harness.measure.windows")
"""Modules whose constants a note may name."""
SMALL = frozenset({0.0, 1.0})


def words(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of everything that a person wrote about results."""
    for note in experiment.notes:
        yield "note", note
    for claim in experiment.claims:
        for reason in (claim.because, claim.unmeasured_because):
            if reason:
                yield f"reason of {claim.id}", reason


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return re.split(r"(?<=[.:;]) (?=[A-Z])", text)


def numbers(sentence: str) -> Iterator[float]:
    """Yield the numbers of a sentence, without those in names."""
    for found in NUMBER.finditer(NAMES.sub("", sentence)):
        yield float(found[0].replace(",", ""))


@functools.cache
def constants(path: Path, *, declared_only: bool) -> frozenset[float]:
    """Return every number in the code of a module, strings and docstrings left out.

    ``declared_only``: those of constants and of default values of fields alone."""
    tree = ast.parse(path.read_bytes())
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    statements = [*tree.body, *(each for one in classes for each in one.body)]
    roots = [each for each in statements if isinstance(each, ast.Assign | ast.AnnAssign)]
    return frozenset(
        float(node.value)
        for root in (roots if declared_only else [tree])
        for node in ast.walk(root)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    )


@functools.cache
def written(group: str) -> frozenset[float]:
    """Return every number that stands in a text of a group's modules.

    A number of a note that does not was formatted from something."""
    texts = (
        node.value
        for path in sorted((ROOT / "experiments" / group).glob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    found = (each[0] for text in texts for each in NUMBER.finditer(text))
    return frozenset(float(each.replace(",", "")) for each in found)


def in_grid(value: Any) -> Iterator[float]:
    """Yield the numbers in a point's values, also those in text such as ``"5-10"``."""
    if isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, str):
        yield from (float(each) for each in re.findall(r"\d+(?:\.\d+)?", value))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from in_grid(each)


def allowed(experiment: Experiment) -> frozenset[float]:
    """Return the numbers that code and grid declare."""
    found = set(SMALL)
    for points in experiment.grid.values():
        found.add(float(len(points)))
        for point in points:
            for value in point.values():
                found.update(in_grid(value))
    modules = {name.split(":")[0] for name in reached([experiment.measurement.root])}
    modules.add(experiment.table.__module__)
    for module in modules:
        if module.startswith((*PARAMETERS, *SETTINGS)):
            place = ROOT.joinpath(*module.split("."))
            path = place.with_suffix(".py")
            path = path if path.exists() else place / "__init__.py"
            found |= constants(path, declared_only=module.startswith(SETTINGS))
    return frozenset(found)


def undeclared(text: str, declared: frozenset[float]) -> list[tuple[float, str]]:
    """Return the numbers of ``text`` that are neither declared nor a paper's, and the sentences."""
    return [
        (number, sentence)
        for sentence in sentences(text)
        if not THEIRS.search(sentence)
        for number in numbers(sentence)
        if not is_declared(number, declared)
    ]


def is_declared(value: float, declared: frozenset[float]) -> bool:
    return any(
        abs(value - each * scale) <= 1e-9 * max(1.0, abs(value))
        for each in declared
        for scale in SCALES
    )


@pytest.mark.parametrize("experiment", all_experiments(), ids=lambda each: str(each.id))
def test_notes_and_reasons_have_no_number_of_a_result(experiment: Experiment) -> None:
    declared = allowed(experiment)
    by_hand = written(experiment.group)
    copied = [
        f"{place}: {number} in: {sentence}"
        for place, text in words(experiment)
        for number, sentence in undeclared(text, declared)
        if number in by_hand
    ]
    assert not copied, "take it from the table in a finding, or say it without the number"


def test_a_copied_result_is_found() -> None:
    declared = frozenset({2.0, 0.5})
    assert undeclared("A batch has 0.5 s, 50 % of the load.", declared) == []
    assert undeclared("See Figure 17, Q1 and live/recovery; the paper has 12 s.", declared) == []
    assert undeclared("It took 3.7 s here.", declared) == [(3.7, "It took 3.7 s here.")]
    assert undeclared("The paper has 12 s. Here it took 11.3.", declared)


SHOWN = {
    ("ppa/random-topologies", "degree"): "the bands of the figure, and ppa/regions",
    ("ppa/regions", "region"): "the shares that it measures",
    ("ppa/query-readings", "region"): "the shares that it measures",
    ("edge/resources", "full-range"): "the demands are declared",
}
"""Reasons that a measurement shows, and which."""


def test_a_reason_that_no_measurement_shows_says_presumably() -> None:
    unshown = [
        f"{experiment.id}: {claim.id}: {claim.because}"
        for experiment in all_experiments()
        for claim in experiment.claims
        if claim.because
        and "presumably" not in claim.because.lower()
        and (experiment.id, claim.id) not in SHOWN
    ]
    assert not unshown, "say presumably, or name in SHOWN what shows it"
