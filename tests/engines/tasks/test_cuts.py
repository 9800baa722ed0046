"""The task engine while racks are cut off the network, live: what goes on alone counts nowhere.

Everything here but one test runs inside namespaces, where a cut is a virtual cable that is down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cluster.backends import remove_made
from harness.cluster.local.cluster import LocalCluster
from harness.cluster.local.network import Namespaces
from harness.endurance.trial import Disturb, Disturbance
from harness.engines.tasks.engine import TaskEngine
from harness.protocol.effects import CopyEvent
from tests.cluster.inside import WHOLE_FILE_S, only_inside, only_outside, ran_inside
from tests.engines.tasks.live import SPEC, endurance, own_state, started, trial

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.long]

SUSPECT_S = 1.0


@only_outside
@pytest.mark.timeout(WHOLE_FILE_S)
def test_all_of_it_inside() -> None:
    ran_inside(Path(__file__))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskEngine]:
    with own_state(tmp_path_factory):
        cluster = LocalCluster(SPEC, network=Namespaces(), remove=remove_made)
        with started(cluster) as engine:
            yield engine


@only_inside
@pytest.mark.parametrize("scheme", ["checkpoint", "global", "active", "ppa", "replay"])
def test_a_rack_that_is_cut_off_is_replaced_and_its_output_counts_nowhere(
    engine: TaskEngine, tmp_path: Path, scheme: str
) -> None:
    cut = Disturbance(at_s=2, kind=Disturb.CUT, target="r1", for_s=4)
    done = trial(engine, tmp_path, scheme, 8, suspect_s=SUSPECT_S).run([cut])
    assert done.results > 500
    assert (done.cuts, done.failures) == (2, 0), done
    lost = {noted.note.node for noted in engine.lost_primaries()}
    assert {0, 1} <= lost, "both nodes of the rack were given up"
    assert any("silent" in noted.note.why for noted in engine.lost_primaries())
    if scheme == "active":
        assert CopyEvent.PROMOTED in {noted.note.event for noted in engine.notes()}


@only_inside
def test_kills_and_cuts_at_random(engine: TaskEngine, tmp_path: Path) -> None:
    tally = endurance(engine, tmp_path, seed=0).until(6)
    assert tally.kills >= 6
    assert tally.cuts >= 2
    assert tally.failures == 0, tally
