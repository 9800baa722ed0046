"""Times of the stock runs, which follow the windows of a workload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from experiments.stock._workloads import WORKLOADS
from experiments.stock.calibration import EXPERIMENT as CALIBRATION
from experiments.stock.calibration import LOAD_S, _load_s
from experiments.stock.workload_kill import MEASUREMENT as WORKLOAD_KILL
from harness.errors import UsageError
from harness.results.record import Profile
from harness.stock_kills.scale import SCALES, check_options, lasts, scale_of
from tests.there import there
from workloads.base import Workload
from workloads.wordcount import word_count

HOTTEST = Path(__file__).parents[3] / "workloads/examples/hottest.py"


def windows_of(window_s: float, slide_s: float, delay_s: float) -> Workload:
    lines = word_count(text=[__file__])
    return replace(lines, window_s=window_s, slide_s=slide_s, watermark_delay_s=delay_s)


RUN = {
    *(("word-count", profile) for profile in Profile),
    *((str(p["workload"]), profile) for profile, grid in WORKLOAD_KILL.grid.items() for p in grid),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_can_be_built_by_another_process(name: str) -> None:
    workload = WORKLOADS[name].make(7)
    again = there(workload.reference).build()
    assert again.sources == workload.sources
    assert (again.window_s, again.slide_s) == (workload.window_s, workload.slide_s)


@pytest.mark.parametrize(("name", "profile"), sorted(RUN))
def test_the_papers_workloads_keep_their_times(name: str, profile: Profile) -> None:
    workload = WORKLOADS[name].make(1)
    assert SCALES[profile].following(workload) == SCALES[profile]
    assert _load_s(workload, 1.0) == LOAD_S


@pytest.mark.parametrize(
    ("profile", "before", "after"),
    [(Profile.SMOKE, 1, 1), (Profile.QUICK, 1, 2), (Profile.PAPER, 5, 8)],
)
@pytest.mark.parametrize("windows", [(10, 10, 5), (60, 60, 10), (60, 10, 30)])
def test_enough_windows_fall_due_around_each_kill(
    profile: Profile, before: int, after: int, windows: tuple[float, float, float]
) -> None:
    workload = windows_of(*windows)
    scale = SCALES[profile].following(workload)
    slide_s, delay_s = workload.slide_s, workload.watermark_delay_s
    due_s = [delay_s + number * slide_s for number in range(1, 200)]
    assert sum(each <= scale.kill_at_s for each in due_s) >= before
    assert sum(scale.kill_at_s < each <= scale.load_s for each in due_s) >= after
    if scale.rack_after_s is not None:
        rack_at_s = scale.kill_at_s + scale.rack_after_s
        assert sum(scale.kill_at_s < each <= rack_at_s for each in due_s) >= after
        assert sum(rack_at_s < each <= scale.whole_load_s for each in due_s) >= after
    if scale.warmup_s:
        assert scale.warmup_s >= delay_s + slide_s


def own_file(tmp_path: Path, window_s: float) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(HOTTEST.read_text().replace("= 4, 1, 1", f"= {window_s}, {window_s}, 5"))
    return path


def test_a_run_says_how_long_it_takes_and_why(tmp_path: Path) -> None:
    options = {"workload": own_file(tmp_path, 10)}
    found = there(lasts(Profile.PAPER, [], options, 330))
    assert found[0] > 330
    assert "windows of 10 s: 5 before the kill, 8 after, then a rack's kill 82 s on" in found[1]
    assert there(lasts(Profile.SMOKE, [], options, 45))[0] < 120
    assert lasts(Profile.QUICK, [], {}, 150) is None
    ramp = there(CALIBRATION.measurement.lasts)
    assert there(ramp(Profile.QUICK, [], options, 100))[0] > 100
    usual = scale_of(Profile.QUICK, {})
    assert scale_of(Profile.QUICK, options).whole_load_s > usual.whole_load_s


def test_windows_for_days_are_refused_with_the_time_they_would_take(tmp_path: Path) -> None:
    options = {"workload": own_file(tmp_path, 3600)}
    with pytest.raises(UsageError, match=r"windows of 3600 s .* one pass would last .* h"):
        check_options(Profile.QUICK, options)
