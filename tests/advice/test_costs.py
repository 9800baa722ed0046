"""The page about one's own job, from passes made by hand."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from harness.advice import costs, own_job
from harness.cli.main import cli
from harness.failures.generators import in_turn, one_target
from harness.judging.outcome import judge
from harness.judging.passes import PassRecord
from harness.results.library import Library
from harness.results.record import Outcome, Point, Profile
from harness.results.tables import Results
from harness.running.plan import RunSettings
from tests.experiments.smoke import results_of
from tests.judging.constructed import WORKLOAD, deliveries, injected, record, truth

SCHEDULE = in_turn(
    *(
        one_target(target, at_s=at_s, restart_after_s=3)
        for target, at_s in (("r1n1", 8), ("r1", 20))
    )
)
LATE = dict.fromkeys(range(5, 9), 4.0) | dict.fromkeys(range(17, 24), 6.0)


def killed(failed: PassRecord | None = None) -> Outcome:
    """Return what a run gives that kills a worker and a rack."""
    outcome = judge(
        record(name="twin"),
        failed or record(deliveries(LATE), failures=injected(SCHEDULE)),
        truth(),
        workload=WORKLOAD,
        schedule=SCHEDULE,
        trigger_s=1,
        settle_s=3,
    )
    values = {**outcome.values, "trigger_s": 1.0, "rate_per_s": 100.0, "event_speed": 1.0}
    return replace(outcome, values=values)


def results(tmp_path: Path, failed: PassRecord | None = None) -> Results:
    """Return such a run under checkpoint, as its record has it."""
    point: Point = {"scheme": "checkpoint", "interval_s": 1}
    return results_of([(point, killed(failed))], tmp_path)


def test_each_kill_has_its_outage_and_its_late_results(tmp_path: Path) -> None:
    kills = costs.kills_of(results(tmp_path))
    assert kills["kill"].tolist() == ["a worker", "a rack"]
    # From when the first late window would have come, 9 s and 21 s, until the last one came.
    assert kills["outage_s"].tolist() == pytest.approx([8 + 3 + 4 - 9, 23 + 3 + 6 - 21])
    # Three words in each of the windows that began at 5 to 8 s, and at 17 to 23 s.
    assert kills["late"].tolist() == [12, 21]
    assert kills[["repeated", "wrong"]].to_numpy().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("failed", "said", "wrong"),
    [
        (record(deliveries(LATE), failures=injected(SCHEDULE)), "Right: after the kills 1 of 1", 0),
        (
            record(
                deliveries(LATE).assign(count=lambda f: f["count"].mask(f.index == 40, 0)),
                failures=injected(SCHEDULE),
            ),
            "WRONG: 1 of 1 runs delivered other results: of 93 expected: 1 wrong",
            1,
        ),
        (
            record(deliveries(LATE).iloc[:-3], failures=injected(SCHEDULE), drained=False),
            "Of 1 it is unknown: failures: the engine did not deliver everything",
            None,
        ),
    ],
    ids=["right", "wrong", "incomplete"],
)
def test_the_verdict_is_the_judges(
    tmp_path: Path, failed: PassRecord, said: str, wrong: int | None
) -> None:
    found = results(tmp_path, failed)
    assert said in costs.verdict_of(found.frame)
    delivered = [None if pd.isna(each) else each for each in costs.kills_of(found)["wrong"]]
    assert delivered == [wrong, wrong]
    if wrong is not None:  # compared with the twin, which here has what the batch has
        late = replace(WORKLOAD, late_data=True)
        assert costs.kills_of(found, late)["wrong"].tolist() == [wrong, wrong]
        said = costs.verdict_of(found.frame, late_data=True)
        assert f"After the kills {1 - wrong} of 1 runs" in said
        assert ("(of 93 expected: 1 wrong" in said) == (wrong == 1)


@pytest.mark.parametrize(
    ("outages", "at_least", "words"),
    [
        ([4.0], [None], "4 s"),
        ([4.0, 8.0, 5.0], [None] * 3, "5 s (4 to 8)"),
        ([None], [None], "–"),
        ([None], [20.0], "more than 20 s"),
        ([4.0, 6.0, None], [None, None, 20.0], "6 s, 1 of 3 not over"),
    ],
)
def test_an_outage_is_a_median_with_its_range_or_at_least_that(
    outages: list[float | None], at_least: list[float | None], words: str
) -> None:
    kills = pd.DataFrame({"outage_s": outages, "at_least_s": at_least})
    assert costs.outage_of(kills) == words


OPTIONS = {
    "--rate": "--rate 100", "--speed": "--speed 2", "--point": "--point scheme=checkpoint",
    "--mttf": "--mttf 90d", "--state": "--state 2GB", "--workers": "--workers 1",
    "--conf": "--conf spark.a=b --conf spark.c=d", "--seed": "--seed 7",
}  # fmt: skip


def page(
    tmp_path: Path, found: Results, profile: Profile = Profile.QUICK, missing: int = 0
) -> costs.Page:
    done = len(found.frame)
    campaign = SimpleNamespace(
        valid=(), records=[SimpleNamespace(status="ok")] * done, results=lambda: found,
        expected=done + missing, left_out=0,
    )  # fmt: skip
    measurement = SimpleNamespace(id=own_job.KILLS)
    experiment = SimpleNamespace(measurement=measurement, title="a kill")
    judged: Any = SimpleNamespace(experiment=experiment, campaign=campaign, table=None)
    made, *_ = own_job.page_of(
        WORKLOAD,
        [judged],
        RunSettings(profile=profile),
        given=own_job.Given(file=Path("orders.py"), options=OPTIONS, out=tmp_path),
        library=Library([], []),
    )
    return made


def test_the_page_is_written_as_text_markdown_html_and_a_picture(tmp_path: Path) -> None:
    made = page(tmp_path, results(tmp_path / "runs"))
    text = made.text()
    assert "Right: after the kills 1 of 1 runs" in text
    assert "2,000 MB of state" in text
    assert "at twice the rate" in text
    files = costs.write(made, tmp_path / "page", [])
    assert [file.name for file in files] == ["index.html", "page.md", "kills.png", "kills.csv"]
    whole = files[0].read_text()
    assert "data:image/png;base64," in whole
    assert "What a kill costs: word-count" in whole
    assert "| checkpoint | micro-batch | 1 s | a worker | 1 |" in files[1].read_text()
    assert files[2].read_bytes().startswith(b"\x89PNG")
    assert len(pd.read_csv(files[3])) == 2


def test_a_page_without_a_valid_run_says_so(tmp_path: Path) -> None:
    made = page(tmp_path, Results(pd.DataFrame(), {}))
    assert "No run was valid" in made.text()
    assert "medians" not in made.text(), "no word about columns that are not there"
    assert " --rate 250\n      at half the rate" in made.text()
    assert [f.name for f in costs.write(made, tmp_path, [])] == ["index.html", "page.md"]


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("missing", [0, 1])
def test_the_next_steps_are_commands_that_keep_what_the_user_said(
    tmp_path: Path, profile: Profile, done: bool, missing: int
) -> None:
    found = results(tmp_path / "runs") if done else Results(pd.DataFrame(), {})
    made = page(tmp_path, found, profile, missing)
    assert len(made.commands) >= 4
    for what, command in made.commands.items():
        program, *words = shlex.split(command)
        assert program == "./faultline"
        parsed = parse(words)
        if words[0] != "try":
            continue
        for name, given in OPTIONS.items():
            expected = {"--rate": (50.0, 200.0, 250.0)} if "the rate" in what else {}
            if name in expected:
                assert parsed["rate"] in expected[name], command
                assert command.count("--rate") == 1
            else:
                assert given in command, (what, name)


def parse(words: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a command line, as the real parser reads them."""
    with cli.make_context("faultline", list(words)) as context:
        command = cli.get_command(context, words[0])
        assert command is not None
        with command.make_context(words[0], list(words[1:]), parent=context) as own:
            return own.params
