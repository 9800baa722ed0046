"""The commands that list, run, reproduce and report, on a toy experiment."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli.main import COMMANDS, cli, system_failure
from harness.cli.output import check_out
from harness.cli.progress import Countdown
from harness.experiment import Experiment
from harness.measurement import Context, Origin
from harness.pages import walk
from harness.results.provenance import ROOT
from harness.results.record import Outcome, Point, Profile
from harness.results.store import RecordStore
from harness.running import discovery as catalogue
from harness.running.plan import FIGURE_S
from tests.cli.kit import refusal
from tests.running.test_execution import make
from tests.toys import changed, square, toy

Invoke = Callable[..., Result]


@pytest.fixture
def experiments() -> list[Experiment]:
    return [toy(), toy(identifier="stock/other")]


@pytest.fixture
def invoke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, experiments: list[Experiment]
) -> Invoke:
    monkeypatch.setattr(catalogue, "all_experiments", lambda: experiments)
    monkeypatch.setattr(catalogue, "by_page", catalogue.by_page.__wrapped__)  # keeps no toys
    monkeypatch.setattr("harness.running.catalogue._path", lambda: None)
    monkeypatch.setattr(walk, "all_experiments", lambda: experiments)

    def call(*arguments: str) -> Result:
        out = [] if arguments[0] in ("list", "compare") else ["--out", str(tmp_path)]
        return CliRunner().invoke(cli, [*arguments, *out])

    return call


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert "Examples:" in result.output


def test_list_names_every_experiment(invoke: Invoke) -> None:
    assert "stock/toy" in invoke("list").stdout
    documents = json.loads(invoke("list", "--json").stdout)
    assert [d["id"] for d in documents] == ["stock/toy", "stock/other"]


def test_run_prints_verdicts_and_one_json_document(invoke: Invoke) -> None:
    result = invoke("run", "stock/toy")
    assert result.exit_code == 0, result.output
    assert "holds: y rises with x" in result.stdout
    document = json.loads(invoke("run", "stock/toy", "--json").stdout)
    assert document["complete"]
    assert document["runs"] == [], "everything was there already"
    assert [c["held"] for c in document["claims"]] == [True, True]


def test_dry_run_runs_nothing(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("reproduce", "--dry-run", "--json")
    document = json.loads(result.stdout)
    assert len(document["runs"]) == 12
    assert document["seconds_left"] == pytest.approx(1.2 + 2 * FIGURE_S), "and two figures"
    assert not (tmp_path / "records").exists()


def test_one_point_is_run_by_its_values_and_decides_nothing_alone(invoke: Invoke) -> None:
    """A missing point is not a failure."""
    result = invoke("run", "stock/toy", "--point", "x=2.0", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert [run["point"] for run in document["runs"]] == [{"x": 2}, {"x": 2}]
    assert [claim["held"] for claim in document["claims"]] == [None, None]
    assert "of 6 runs" in document["claims"][0]["why"]
    whole = json.loads(invoke("run", "stock/toy", "--json").stdout)
    assert len(whole["runs"]) == 4, "what was measured by itself is kept"


@pytest.mark.parametrize("words", ["x=nine", "y=1", "x"])
def test_a_point_that_is_not_in_the_grid_is_refused(invoke: Invoke, words: str) -> None:
    assert words in refusal(invoke("run", "stock/toy", "--point", words)).what


def test_two_directories_are_set_side_by_side(invoke: Invoke, tmp_path: Path) -> None:
    def at(recovery_s: float, y: int) -> Experiment:
        return toy(
            lambda point, context: Outcome(
                values={"y": y, "recovery_s": recovery_s, "load_s": 30.0, "ok": True, "text": "no"}
            )
        )

    for name, recovery_s, y in (("one", 2.0, 1), ("other", 3.0, -1)):
        make(RecordStore(tmp_path / name), at(recovery_s, y))
    paths = [str(tmp_path / name) for name in ("one", "other")]
    document = json.loads(invoke("compare", *paths, "--json").stdout)
    assert {row["quantity"] for row in document["quantities"]} == {"recovery_s", "y"}, "no facts"
    rows = [row for row in document["quantities"] if row["quantity"] == "recovery_s"]
    assert [row["point"] for row in rows] == ["x=1", "x=2", "x=3"]
    assert all(row["medians"] == [2.0, 3.0] and row["ratios"] == [None, 1.5] for row in rows)
    assert all(row["runs"] == [2, 2] for row in rows)
    found = {row["claim"]: row["verdicts"] for row in document["claims"]}
    assert found == {
        "y rises with x": ["not measured"] * 2,  # smoke decides no paper
        "y is above zero": ["holds", "does not hold"],
    }
    shown = invoke("compare", *paths).stdout
    assert "1.5 times" in shown
    assert "≠ holds          does not hold  invariant: y is above zero" in shown
    assert "2 claims; 1 decided by every side, 1 differently" in shown
    alone = invoke("compare", *paths, "--differing").stdout
    assert "y is above zero" in alone
    assert "y rises with x" not in alone
    assert "1.5 times" not in alone


def test_kinds_of_cluster_are_set_side_by_side_and_never_taken_together(
    invoke: Invoke, tmp_path: Path
) -> None:
    experiment = toy(lambda point, context: Outcome(values={"y": 1, "recovery_s": 2.0}))
    make(RecordStore(tmp_path), experiment)
    kinds = [("local", 2.0), ("docker", 6.0), ("external-lab", 1.0)]
    for number, path in enumerate(sorted(tmp_path.glob("records/*/*/*/*/record.json"))):
        document = json.loads(path.read_text())
        name, value = kinds[number % 3]
        document |= {"backend": name, "values": {**document["values"], "recovery_s": value}}
        document["point"] = {"x": 1}
        if name == "external-lab":
            del document["values"]["y"]
        path.write_text(json.dumps(document))
    chosen = [str(tmp_path), "--cluster", "local", "--with", "docker", "--with", "external-lab"]
    document = json.loads(invoke("compare", *chosen, "--json").stdout)
    assert [side["clusters"] for side in document["sides"]] == [[name] for name, _ in kinds]
    recovery, other = document["quantities"]
    assert (recovery["medians"], recovery["ratios"]) == ([2.0, 6.0, 1.0], [None, 3.0, 0.5])
    assert (other["medians"], other["runs"]) == ([1.0, 1.0, None], [2, 2, 0])
    assert {row["claim"] for row in document["claims"]} == {"y rises with x", "y is above zero"}
    unsaid = invoke("compare", str(tmp_path), str(tmp_path), "--json")
    assert [side["clusters"] for side in json.loads(unsaid.stdout)["sides"]] == [["local"]] * 2
    assert "--cluster chooses docker, external-lab" in unsaid.stderr
    for path in tmp_path.glob("records/*/*/*/*/record.json"):
        if json.loads(path.read_text())["backend"] == "local":
            path.unlink()
    for arguments, what in (
        ([str(tmp_path)], "only one set"),
        ([str(tmp_path), str(tmp_path)], "several kinds of cluster"),
        ([str(tmp_path), "--cluster", "moon", "--with", "docker"], "no run was made"),
    ):
        assert what in refusal(invoke("compare", *arguments)).what


@pytest.mark.parametrize(
    ("text", "kind"),
    [("machines: [{ssh: a}]\n", "machines"), ("kafka: {bootstrap: a}\n", "external")],
)
def test_the_file_of_a_cluster_stands_for_its_name_in_records(
    invoke: Invoke, tmp_path: Path, text: str, kind: str
) -> None:
    make(RecordStore(tmp_path / "results"), toy())
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    chosen = ["--cluster", str(file), "--with", "docker"]
    refused = refusal(invoke("compare", str(tmp_path / "results"), *chosen))
    assert f"--cluster {kind}-lab-" in refused.what


def test_machines_without_a_place_for_files_skip_the_engines_that_need_one(
    invoke: Invoke, experiments: list[Experiment], tmp_path: Path
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("machines: [{ssh: a}]\n")
    engines = [f"harness.engines.{name}.engine" for name in ("structured", "tasks")]
    grid = {profile: [{"engine": "structured"}, {"engine": "tasks"}] for profile in Profile}
    both, stock = (changed(each, origin=Origin.MEASURED) for each in experiments)
    experiments[:] = [
        changed(both, chooses=engines, grid=grid),
        changed(stock, chooses=engines[:1]),
    ]
    call = ["reproduce", "--dry-run", "--cluster", str(file)]
    document = json.loads(invoke(*call, "--json").stdout)
    assert len(document["runs"]) == 2 * (2 + 3)
    for run in document["runs"]:
        assert ("checkpoints" in (run["skipped"] or "")) is (run["point"].get("engine") != "tasks")
    shown = invoke(*call).stdout
    assert re.search(r"\nstock/toy +2 runs, about", f"\n{shown}")
    assert re.search(r"\nstock/other +skipped: its engine keeps its state in files", shown)


def test_ctrl_c_keeps_what_was_finished(
    invoke: Invoke, experiments: list[Experiment], tmp_path: Path
) -> None:
    def run(point: Point, context: Context) -> Outcome:
        if point["x"] == 2:
            raise KeyboardInterrupt
        return square(point, context)

    experiments[:] = [toy(run)]
    result = invoke("reproduce")
    assert result.exit_code == 130
    assert "1 of 6 runs are kept" in result.stderr
    assert not list(tmp_path.glob("records/.partial-*"))
    experiments[:] = [toy()]
    resumed = json.loads(invoke("reproduce", "--json").stdout)
    assert resumed["complete"]
    assert len(resumed["runs"]) == 5


def test_what_could_not_be_measured_is_said_and_no_error(
    invoke: Invoke, experiments: list[Experiment]
) -> None:
    experiments[:] = [toy(lambda point, context: Outcome(values={}, invalid="slow"))]
    result = invoke("reproduce")
    assert result.exit_code == 0
    assert "invalid: slow" in result.stdout
    assert "not measured" in result.stdout
    assert invoke("reproduce", "--strict").exit_code == 1
    experiments[:] = [changed(experiments[0], accepts=frozenset({"failures"}))]
    example = str(ROOT / "docs/examples/failures.yaml")
    own = invoke("run", "stock/toy", "--failures", example)
    assert own.exit_code == 3, "a schedule of one's own that no valid run carried out"


def test_report_before_any_measurement_says_what_to_do(invoke: Invoke) -> None:
    assert "./faultline reproduce first" in str(refusal(invoke("report")))


def test_an_unknown_experiment_gets_the_nearest_name(invoke: Invoke) -> None:
    assert "did you mean 'stock/toy'" in str(refusal(invoke("run", "stock/toi")))


def test_a_dry_run_refuses_a_directory_that_takes_no_files(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for out in ("/proc/x", str(file / "below")):
        result = CliRunner().invoke(cli, ["run", "intervals", "--dry-run", "--out", out])
        assert "--out: results cannot be written" in refusal(result).what
    check_out(tmp_path / "not" / "there" / "yet")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_schedule_must_fit_the_smoke_profiles_own_load(tmp_path: Path) -> None:
    """The example fits, and what does not is refused before a cluster starts."""
    words = ["run", "stock/worker-kill", "--dry-run", "--profile", "smoke", "--out", str(tmp_path)]
    late = tmp_path / "late.yaml"
    late.write_text("failures:\n  - {at: 7s, action: kill, target: r1n1}\n")
    refused = refusal(CliRunner().invoke(cli, [*words, "--failures", str(late)]))
    assert "lies after the end of the load at 6 s" in refused.what
    example = str(ROOT / "docs/examples/failures.yaml")
    done = CliRunner().invoke(cli, [*words, "--failures", example])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("name", "remedy"), [("nothing", "use one of: stock"), ("stock/toi", "'stock/toy'")]
)
@pytest.mark.parametrize("command", ["export", "compare"])
def test_results_of_an_experiment_without_runs_are_refused(
    tmp_path: Path, command: str, name: str, remedy: str
) -> None:
    make(RecordStore(tmp_path), toy())
    file, root = str(tmp_path / "all.csv"), str(tmp_path)
    words = {"export": ["export", file, "--from", root], "compare": ["compare", root, root]}
    refused = refusal(CliRunner().invoke(cli, [*words[command], "--experiment", name]))
    assert f"no run of {name!r}" in refused.what
    assert remedy in refused.remedy
    assert not Path(file).exists()


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "make room"),
        (errno.ENAMETOOLONG, "shorter name"),
        (errno.EACCES, "you can write to"),
        (errno.EIO, "choose another place"),
    ],
)
def test_a_refusal_of_the_system_names_the_place_and_the_remedy(code: int, remedy: str) -> None:
    failure = system_failure(OSError(code, "refused", "/data/x"), [])
    assert failure.what == "/data/x: refused"
    assert remedy in failure.remedy
    assert ("make room" in failure.remedy) == (code == errno.ENOSPC)


def test_whoever_closes_the_pipe_ends_the_command_quietly() -> None:
    command = [sys.executable, "-m", "harness.cli", "--help"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_figures_are_exported_with_their_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, experiments: list[Experiment]
) -> None:
    def undrawable(*_: object) -> None:
        raise ValueError("no such column")

    broken = changed(experiments[1], draw=undrawable)
    monkeypatch.setattr(walk, "all_experiments", lambda: [experiments[0], broken])
    store = RecordStore(tmp_path / "results")
    for experiment in experiments:
        make(store, experiment)
    root, folder = str(store.root), tmp_path / "figures"
    call = ["export", "--from", root, "--figures", str(folder)]
    result = CliRunner().invoke(cli, [*call, "--format", "pdf, png,svg"])
    assert result.exit_code == 0, result.output
    name, other = (each.id.replace("/", "-") for each in experiments)
    kinds = ("csv", "pdf", "png", "svg")
    assert {path.name for path in folder.iterdir()} == {
        *(f"{name}.{kind}" for kind in kinds), f"{other}.csv"
    }  # fmt: skip
    assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "no such column" in result.stderr
    for wrong, remedy in [
        (["--format", "gif"], "pdf, png, svg"),
        (["--experiment", "stock/worker-kil"], "stock/worker-kill"),
        (["all.csv"], "one of them"),
        (["--from", root], "--from once"),
    ]:
        assert remedy in refusal(CliRunner().invoke(cli, [*call, *wrong])).remedy


def test_the_countdown_moves_within_a_run_and_never_ends_before_the_last() -> None:
    now = 0.0
    countdown = Countdown(100.0, clock=lambda: now)
    assert countdown.left_s() == 100.0
    countdown.started(50.0)
    now = 25.0
    assert countdown.left_s() == pytest.approx(75.0), "as planned"
    now = 200.0
    assert countdown.left_s() > 55.0, "it takes longer than planned, and so will the next one"
    countdown.finished(50.0)
    countdown.started(50.0)
    assert countdown.left_s() == pytest.approx(50.0 * (0.5 + 0.5 * 4))
    now = 1e6
    assert countdown.left_s() > 0
    countdown.finished(50.0)
    assert countdown.left_s() == 0


def test_a_few_quick_runs_say_little_about_the_long_ones() -> None:
    now = 0.0
    countdown = Countdown(300.0, clock=lambda: now)
    for number in range(3):
        countdown.started(1.0)
        now = 0.01 * (number + 1)
        countdown.finished(1.0)
    assert countdown.left_s() == pytest.approx(297.0, rel=0.02)
