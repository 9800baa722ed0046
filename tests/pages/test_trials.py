"""Every changed parameter of the appendix does what the appendix says."""

from __future__ import annotations

from statistics import fmean

import pytest

from harness.notebook.explore import one_point
from harness.pages.trials import TRIALS, Trial
from harness.results.record import Point, Profile
from harness.running.discovery import GROUPS, at_point, find
from harness.seeds import DEFAULT_SEED

LONGEST = "ppa/multi-query"
"""Three quarters of a minute; all others together take a few seconds."""


def value(trial: Trial, options: str) -> float:
    """Measure every repetition of a trial's point, as `run` would."""
    words = dict(zip(options.split()[::2], options.split()[1::2], strict=True))
    (experiment,) = find([trial.experiment])
    points: list[Point] = list(
        at_point([experiment], Profile.QUICK, words["--point"])[experiment.id]
    )
    assert len(points) == 1, "one parameter differs between two single points"
    values = []
    for repeat in range(experiment.measurement.repeats[Profile.QUICK]):
        seed = int(words.get("--seed", DEFAULT_SEED))
        found = one_point(trial.experiment, seed=seed, repeat=repeat, **points[0])
        values.append(float(found[trial.value]))
    return fmean(values)


@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(
            trial,
            id=trial.experiment,
            marks=pytest.mark.long if trial.experiment == LONGEST else (),
        )
        for trial in TRIALS
    ],
)
def test_what_is_expected_happens(trial: Trial) -> None:
    first, changed = value(trial, trial.first), value(trial, trial.changed)
    assert 0 < trial.least <= changed / first <= trial.most < 10, (first, changed)


def test_every_paper_has_a_trial() -> None:
    groups = {trial.experiment.split("/")[0] for trial in TRIALS}
    assert groups == {*GROUPS} - {"live", "stock"}
    assert len({trial.paper for trial in TRIALS}) == 5
    assert not any(find([trial.experiment])[0].measurement.measured for trial in TRIALS)
