"""The whole path from a new engine to the report: runner, pass, judge, record, page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.claims import Claim, Finding, every, invariant
from harness.cluster.backends import BACKENDS
from harness.cluster.base import Cluster, ClusterSpec
from harness.experiment import Experiment
from harness.judging.run import measure
from harness.measurement import Context, Origin
from harness.pages import report, walk
from harness.results import load
from harness.results.record import OK, Outcome, Point, Profile
from harness.results.store import RecordStore
from harness.results.tables import Results
from harness.running.execution import Runner
from harness.running.plan import RunSettings
from tests.engines.test_toy import KILL, live_run
from tests.engines.test_toy import toy_cluster as _toy_cluster
from tests.toys import Watcher, changed, toy

cluster = _toy_cluster
SCHEMES = ("guess", "forget")
SPEC = ClusterSpec(racks=1, workers_per_rack=1)


def run(point: Point, context: Context) -> Outcome:
    """Measure a live engine as a module under ``experiments/`` does."""
    wanted = live_run(str(point["scheme"]), KILL)
    return measure(replace(wanted, timed=False), context.cluster(SPEC), context)


def table(results: Results) -> pd.DataFrame:
    frame = results.frame
    return frame[["output_equals_twin"]].assign(x=frame["scheme"], y=frame["accuracy_first"])


def equal(scheme: str) -> Claim:
    """Claim equal output for one scheme: results with accuracy below 1 are not equal."""

    @invariant(f"{scheme}-equal", f"under {scheme} the stable output equals the twin's")
    def decide(frame: pd.DataFrame) -> Finding:
        row = frame.set_index("x").loc[scheme]
        return every([row["output_equals_twin"]], accuracy=row["y"])

    return decide


def experiment() -> Experiment:
    return changed(
        toy(run),
        origin=Origin.MEASURED,
        grid={profile: [{"scheme": scheme} for scheme in SCHEMES] for profile in Profile},
        repeats=dict.fromkeys(Profile, 1),
        table=table,
        claims=[equal(scheme) for scheme in SCHEMES],
    )


@pytest.mark.deep
def test_a_toy_is_measured_judged_and_reported_as_any_engine(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "all_experiments", lambda: [experiment()])
    store, settings = RecordStore(tmp_path / "results"), RunSettings(profile=Profile.SMOKE)
    place = replace(BACKENDS["local"], name="toy", code="tests.engines.toy")
    runner = Runner(store, lambda _: cluster, Watcher(), backend=place)
    records = runner.execute(runner.plan([experiment()], settings), settings)
    assert [record.status for record in records] == [OK] * 2, [r.reason for r in records]
    assert {(record.engine, record.backend) for record in records} == {("toy", "toy")}

    written = report.write_report(store)
    claims = (claim for item in written.judged for claim in item.claims)
    verdicts = {claim.text.split()[1]: claim.held for claim in claims}
    assert verdicts == {"guess": True, "forget": False}
    (guess,) = (record.values for record in records if record.point["scheme"] == "guess")
    assert guess["corrections"] == guess["tentative"] > 0
    assert guess["uncorrected"] == 0
    assert guess["output_equals_truth"], guess["difference_from_truth"]
    assert guess["accuracy_first"] < guess["accuracy_last"] == 1
    page = (written.index.parent / "stock.html").read_text()
    assert "engine toy on toy" in page
    assert "under guess the stable output equals the twin" in page
    documents = json.loads((written.index.parent / "claims.json").read_text())
    assert [document["engines"] for document in documents] == [["toy"]] * 2

    results = load(tmp_path / "results")
    assert set(results.runs["engine"]) == set(results.runs["backend"]) == {"toy"}
    assert {"twin", "failed"} == set(results.timelines["pass"])
    assert set(results.recoveries["target"]) == {"r1n1"}
