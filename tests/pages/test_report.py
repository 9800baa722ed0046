"""Invalid or incomplete runs can never make a claim hold, and the report shows every verdict."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from harness.claims import Word
from harness.cli.measure import exit_code
from harness.experiment import Experiment
from harness.measurement import Context, Origin
from harness.pages import cards, drawing, report, walk
from harness.pages.assessment import SMOKE_DECIDES, Assessment, assess
from harness.results.provenance import machine_name
from harness.results.record import Outcome, Point, Profile
from harness.results.store import RecordStore
from harness.results.tables import Results
from harness.running.plan import RunSettings
from tests.running.test_execution import SMOKE, make
from tests.there import there
from tests.toys import positive, rising, square, toy

QUICK = RunSettings(profile=Profile.QUICK)
Run = Callable[[Point, Context], Outcome]


def text_of(written: report.WrittenReport) -> str:
    """Return the text of all its pages."""
    return "".join(page.read_text() for page in sorted(written.index.parent.glob("*.html")))


def valued(value: Callable[[float], float]) -> Run:
    """Return a run with this value of its point."""
    return lambda point, context: Outcome(values={"y": value(float(str(point["x"])))})


def judged(
    root: Path, experiment: Experiment, settings: RunSettings = QUICK, *, shown: Any = None
) -> Assessment:
    """Make the runs of an experiment, and judge it, or another form of it, by them."""
    make(RecordStore(root), experiment, settings=settings)
    return newest(root, shown or experiment, settings.profile)


def newest(root: Path, experiment: Experiment, profile: Profile = Profile.QUICK) -> Assessment:
    grid = experiment.grid[profile]
    found = RecordStore(root).newest_campaign(experiment.id, machine_name(), profile, grid)
    return assess(experiment, profile, there(found))


def held(result: Assessment) -> list[bool | None]:
    return [claim.held for claim in result.claims]


Write = Callable[..., report.WrittenReport]
"""Makes runs, and writes the report of all known experiments."""


@pytest.fixture
def know(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Experiment]], None]:
    return lambda known: monkeypatch.setattr(walk, "all_experiments", lambda: known)


@pytest.fixture
def write(tmp_path: Path, know: Callable[[Sequence[Experiment]], None]) -> Write:
    def call(
        *experiments: Experiment, settings: RunSettings = QUICK, root: Path | None = None
    ) -> report.WrittenReport:
        store = RecordStore(root or tmp_path)
        make(store, *experiments, settings=settings)
        know(experiments)
        return report.write_report(store)

    return call


@pytest.mark.parametrize(
    ("value", "verdicts", "exits"),
    [
        (lambda x: x * x, [True, True], (0, 0)),
        (lambda x: 9 - x, [False, True], (0, 1)),
        (lambda x: -x, [False, False], (1, 1)),
    ],
    ids=["both hold", "a paper's claim fails", "an invariant fails"],
)
def test_claims_are_judged_and_a_papers_claim_fails_only_a_strict_run(
    tmp_path: Path, value: Callable[[float], float], verdicts: list[bool], exits: tuple[int, int]
) -> None:
    result = judged(tmp_path, toy(valued(value)))
    assert held(result) == verdicts
    assert tuple(exit_code([result], strict=strict) for strict in (False, True)) == exits


@pytest.mark.parametrize("counted", [False, True])
def test_one_live_run_decides_nothing(tmp_path: Path, counted: bool) -> None:
    """What was simulated is decided by its one value, and so is an invariant.

    Each run of a counted claim is a sample, of whatever point."""
    claims = [replace(rising, counted=counted), positive]
    live = toy(claims=claims, origin=Origin.MEASURED)
    for repeats, verdict in ((1, None), (5, counted or None), (6, True)):
        settings = replace(QUICK, repeats=repeats)
        result = judged(tmp_path / str(repeats), live, settings)
        assert held(result) == [verdict, True]
        if verdict is None:
            claim = result.claims[0]
            assert claim.word is Word.UNDECIDED
            runs = repeats * 3 if counted else repeats
            assert f"it takes 6 samples, and there are {runs}" in str(claim.why)
            since = "2026-11-27" if counted else "2026-11-26"
            assert (claim.rule.version, claim.rule.since) == (2, since)
    shorter = replace(live, fewest=5)
    assert judged(tmp_path / "5", shorter, replace(QUICK, repeats=5)).claims[0].held is True


def test_what_does_not_hold_says_why(tmp_path: Path, write: Write) -> None:
    """A broken invariant is a defect, which only its finding can explain."""
    claims = [replace(claim, because="known") for claim in (rising, positive)]
    for sign, reasons in ((1, [None, None]), (-1, ["known", None])):
        run = valued(lambda x, sign=sign: sign * x)  # type: ignore[misc]
        written = write(toy(run, claims=claims), root=tmp_path / str(sign))
        assert [claim.why for claim in written.judged[0].claims] == reasons
        assert ("Why: known" in text_of(written)) == (sign < 0)
        documents = json.loads((written.index.parent / "claims.json").read_text())
        assert [document["why"] for document in documents] == reasons


@pytest.mark.parametrize("bad", ["missing", "invalid", "failed"])
def test_one_bad_run_withdraws_every_claim_that_held(tmp_path: Path, bad: str) -> None:
    def run(point: Point, context: Context) -> Outcome:
        if point["x"] == 3 and context.repeat == 1:
            if bad == "missing":
                raise KeyboardInterrupt
            if bad == "failed":
                raise RuntimeError("oh")
            return replace(square(point, context), invalid="the load fell behind")
        return square(point, context)

    with suppress(KeyboardInterrupt):
        make(RecordStore(tmp_path), toy(run), settings=QUICK)
    result = newest(tmp_path, toy())
    assert held(result) == [None, None]
    assert "5 of 6 runs" in (result.claims[0].why or "")
    assert exit_code([result], strict=False) == (0 if bad == "invalid" else 3)
    assert exit_code([result], strict=True) == (1 if bad == "invalid" else 3)


def test_a_newer_record_hides_no_broken_invariant(tmp_path: Path) -> None:
    """It must have the same code; runs of changed code belong to another campaign."""
    once = replace(QUICK, repeats=1)
    make(RecordStore(tmp_path), toy(valued(lambda x: -1)), settings=once)
    result = judged(tmp_path, toy(), replace(once, again=True))
    assert held(result) == [True, False]
    assert "older record" in (result.claims[1].why or "")
    assert exit_code([result], strict=False) == 1


def test_every_attempt_and_a_busy_machine_are_on_the_report(write: Write) -> None:
    troubles = iter(["the load fell behind"])

    def run(point: Point, context: Context) -> Outcome:
        busy = {"foreign_share": 0.4, "steal_share": 0, "twin_other_clusters": 1}
        values = {"y": float(str(point["x"])), **busy}
        return Outcome(values=values, invalid=next(troubles, None))

    text = text_of(write(toy(run)))
    assert "(attempt 1) was invalid" in text
    assert "the load fell behind" in text
    assert "other processes used 40%" in text
    assert "(twin): 1 other cluster ran on the machine" in text


@pytest.mark.parametrize(
    ("measured", "shown"),
    [
        (True, "yes"), (None, "–"), (3, "3"), (2 / 3, "0.6667"), (-0.0, "0"), (math.inf, "–"),
        ("x", "x"), ([1, 0.5], "1, 0.5"), ({"a": 1, "b": False}, "a: 1; b: no"), ({}, "–"),
        ([], "none"), (9999, "9999"), (13714, "13,714"), (104123.4, "104,100"), (-2e4, "-20,000"),
    ],
)  # fmt: skip
def test_how_what_was_measured_is_shown(measured: object, shown: str) -> None:
    assert cards.number(measured) == shown


@pytest.mark.parametrize(
    ("largest", "ending", "begins"), [(10**9, "svg", b"<?xml"), (0, "png", b"\x89PNG")]
)
def test_a_figure_is_a_file_of_its_kind(
    write: Write, monkeypatch: pytest.MonkeyPatch, largest: int, ending: str, begins: bytes
) -> None:
    monkeypatch.setattr(drawing, "_LARGEST_INLINE_SVG", largest)
    (file,) = (write(toy()).index.parent / "figures").iterdir()
    assert file.name == f"stock-toy.{ending}"
    assert file.read_bytes().startswith(begins)


def test_an_experiment_that_cannot_be_tabulated_is_a_defect(tmp_path: Path) -> None:
    def table(results: Results) -> pd.DataFrame:
        raise KeyError("nonsense")

    result = judged(tmp_path, toy(), shown=toy(table=table))
    assert "nonsense" in (result.problem or "")
    assert "nonsense" in (result.claims[0].why or "")
    assert held(result) == [None, None]
    assert exit_code([result], strict=False) == 1


def test_the_report_is_one_file_with_every_verdict(tmp_path: Path, write: Write) -> None:
    make(RecordStore(tmp_path), toy(), settings=SMOKE)
    text = text_of(write(toy(), settings=replace(QUICK, root_seed=5)))
    assert not re.search(r"(src|href)=\"https?:", text), "needs the network"
    assert 'alt="Squares.' in text
    assert "--seed 5" in text, "the profile measured last is shown"
    documents = json.loads((tmp_path / "report" / "claims.json").read_text())
    assert {(d["profile"], d["text"]) for d in documents} == {
        (profile, text)
        for profile in ("smoke", "quick")
        for text in ("y rises with x", "y is above zero")
    }
    assert set(documents[0]) == {
        "experiment", "figure", "paper", "kind", "text", "held", "measured", "why", "profile",
        "machine_name", "engines", "id", "rule", "verdict", "post_hoc", "samples", "interval",
        "runs", "commits", "cause", "sentence", "rests_on", "foregone", "counts",
    }  # fmt: skip
    assert (tmp_path / "report" / "data" / "stock-toy.csv").exists()


def test_a_broken_invariant_is_the_first_thing_on_the_first_page(
    tmp_path: Path, write: Write, know: Callable[[Sequence[Experiment]], None]
) -> None:
    page = write(toy(valued(lambda x: -1))).index.read_text()
    assert "1 invariant failed:" in page
    alarm = page.split("invariant failed:")[1].split("</p>")[0]
    assert "y is above zero" in alarm
    assert "y rises with x" not in alarm, "a sentence of a paper that does not hold is no alarm"
    good = RecordStore(tmp_path / "good")
    make(good, toy(), settings=SMOKE)
    make(good, toy(identifier="ppa/toy"), settings=QUICK)
    know([toy(), toy(identifier="ppa/toy")])
    index = report.write_report(good).index
    assert "invariant failed:" not in index.read_text()
    assert "./faultline run ppa/toy stock/toy</code> measures them again" in index.read_text()
    assert "<b>Profile</b> quick, smoke" in index.read_text()
    assert "my_own_run.ipynb" in (index.parent / "stock.html").read_text()
    assert "paper_ppa.ipynb" in (index.parent / "ppa.html").read_text()
    empty = write(root=tmp_path / "empty").index.read_text()
    assert "<b>Profile</b> nothing yet" in empty
    assert "measures them again" not in empty


def test_a_figure_that_cannot_be_drawn_is_a_message_in_its_place(write: Write) -> None:
    """The verdicts and every other figure of the directory stay."""

    def broken(frame: pd.DataFrame, figure: Figure) -> None:
        raise IndexError("there is only one depth")

    text = text_of(write(toy(identifier="stock/bad", draw=broken), toy()))
    assert "there is only one depth" in text
    assert text.count("data:image") == 1
    assert text.count("y rises with x") >= 2


def test_a_figure_may_be_drawn_by_another_process_and_is_drawn_here_when_that_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    know: Callable[[Sequence[Experiment]], None],
) -> None:
    know([toy()])
    store, drawn = RecordStore(tmp_path), list[str]()
    ((_, campaign),) = make(store, toy(), settings=QUICK).campaigns
    right = drawing.picture

    def picture(judged: Assessment) -> drawing.Picture:
        drawn.append(judged.experiment.id)
        return right(judged)

    monkeypatch.setattr(drawing, "picture", picture)

    def process(function: Callable[..., Any], *given: object) -> Future[drawing.Attempt]:
        asked: Future[drawing.Attempt] = Future()
        asked.set_result(("svg+xml", b"<svg>elsewhere</svg>"))
        made = function(*pickle.loads(pickle.dumps(given)))
        assert made[0] == "svg+xml"
        return asked

    def ended(*_: object) -> Future[drawing.Attempt]:
        asked: Future[drawing.Attempt] = Future()
        assert asked.cancel()
        return asked

    for elsewhere in (process, ended, None):
        drawn.clear()
        writer = report.ReportWriter(store, elsewhere=elsewhere)
        for _ in range(2):
            assert writer.judge(toy(), Profile.QUICK, campaign).table is not None
        text = text_of(writer.write())
        assert drawn == ["stock/toy"], "once, for this page or by that process"
        assert ("data:image/svg+xml;base64,PHN2Zz5lbHNld2" in text) is (elsewhere is process)


def test_the_smoke_profile_decides_invariants_only(tmp_path: Path) -> None:
    claims = judged(tmp_path, toy(), SMOKE).claims
    assert [(claim.kind.value, claim.held) for claim in claims] == [
        ("paper", None),
        ("invariant", True),
    ]
    assert claims[0].why == SMOKE_DECIDES
