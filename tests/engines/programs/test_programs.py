"""Engines that are programs: the contract with a made-up one, and what can go wrong with one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.cli.own_options import engine_options
from harness.cluster.base import Cluster, ClusterSpec
from harness.engines.base import EngineKind, Setup
from harness.engines.kinds import find_engine
from harness.engines.programs.described import SCHEME, engine_of_file
from harness.engines.programs.engine import ProgramKind
from harness.engines.settings import Setting
from harness.errors import EnvironmentFailure, FaultlineError, UsageError
from harness.failures.schedule import NO_FAILURES
from harness.judging import passes
from harness.judging.passes import Pass, PassPlan
from harness.load import generator
from harness.load.profile import RateProfile
from harness.measurement import Context
from tests.engines.contract import EngineContract, EngineKindContract, Sharing
from tests.engines.programs.fake import DESCRIPTION, MADE_UP, WORKLOAD, ProgramCluster
from tests.engines.test_toy import made_when_named
from tests.load.test_generator import Broker
from workloads.wordcount import word_count


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], EngineKind]:
    """Return the engine of a file with these lines more, or with others."""
    place = tmp_path_factory.mktemp("described")

    def make(more: str = "", text: str = DESCRIPTION) -> EngineKind:
        path = place / "made-up.yaml"
        path.write_text(text + more)
        return engine_of_file(path)

    return make


def made_up() -> EngineKind:
    """Return the engine of the test's own file, as classes hold it."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "made-up.yaml")
        path.write_text(DESCRIPTION)
        return find_engine(str(path))


class TestMadeUpKind(EngineKindContract):
    kind, workload = made_up(), WORKLOAD


@pytest.mark.slow
class TestMadeUp(EngineContract):
    kind, workload, setup = made_up(), WORKLOAD, Setup(scheme=SCHEME)
    load_s, kill_s, away_s, interval_s = 3.0, 1.2, 0.3, 0.1

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
        broker = Broker()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(generator, "LATE_SHARE", 1.0)
            patch.setattr(passes, "topics", made_when_named)
            yield cast(Cluster, ProgramCluster(broker, tmp_path_factory.mktemp("cluster")))
        broker.close()


@pytest.fixture
def failing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, described: Callable[..., EngineKind]
) -> Iterator[Callable[..., FaultlineError]]:
    """Run a pass of a faulty engine, and return its error; nothing of it may be left."""
    monkeypatch.setattr(generator, "LATE_SHARE", 1.0)
    monkeypatch.setattr(passes, "topics", made_when_named)
    broker = Broker()
    cluster = ProgramCluster(broker, tmp_path)
    plan = PassPlan(
        name="fault", workload=WORKLOAD, rate=RateProfile.constant(100, 1.0), interval_s=0.1,
        schedule=NO_FAILURES,
    )  # fmt: skip

    def once(kind: EngineKind) -> None:
        with kind.open(Setup(scheme=SCHEME), cast(Cluster, cluster)) as engine:
            context = cast(Context, Sharing(engine, tmp_path))
            with Pass(plan, cast(Cluster, cluster), engine, tmp_path, context) as one:
                one.run()

    def run(fault: str, more: str = "", command: str = "") -> FaultlineError:
        text = DESCRIPTION.replace('made_up.py"', f'made_up.py", "{fault}"')
        if command:
            text = f'name: made-up\nform: sums\ncommand: ["{{python}}", "-c", "{command}"]\n'
        kind = described(more, text=text)
        with pytest.raises(FaultlineError) as caught:
            once(kind)
        assert cluster.program is not None
        assert cluster.program.exit_code is not None, "nothing is left behind"
        return caught.value

    yield run
    broker.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "kind", "words", "remedy"),
    [
        (("silent", "ready_within_s: 0.5\n"), EnvironmentFailure,
         ["did not print 'ready' on a line of its own within 0.5 s"], "ready_within_s"),
        (("garbled",), UsageError, ["wrote a result no JSON object", "b'?'"], "window_start, sum"),
        (("child",), UsageError, ["left processes behind when it was stopped: 1 on"], "SIGTERM"),
        (("", "", "raise SystemExit('no licence')"), EnvironmentFailure,
         ["ended by itself with exit code 1", "no licence"], "until SIGTERM"),
        (("", "", "import os; os.kill(os.getpid(), 9)"), EnvironmentFailure,
         ["was killed before it was ready"], "memory is short"),
    ],
)  # fmt: skip
def test_an_engine_that_does_not_keep_its_part_is_named(
    failing: Callable[..., FaultlineError],
    given: Sequence[str],
    kind: type[FaultlineError],
    words: Sequence[str],
    remedy: str,
) -> None:
    error = failing(*given)
    assert isinstance(error, kind)
    assert all(each in error.what for each in words)
    assert remedy in error.remedy


@pytest.mark.slow
def test_a_pass_does_not_begin_with_other_settings_than_its_row(
    failing: Callable[..., FaultlineError], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Setting(part="r1n1", name="delay", asked="1 s", reported="2 s")
    monkeypatch.setattr(ProgramKind, "read_back", lambda *_: [other])
    error = failing("")
    assert isinstance(error, EnvironmentFailure)
    assert "delay of r1n1 is 2 s, and 1 s was asked for" in error.what


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "it is None"),
        ("name: x\n", "it lacks command"),
        ("name: x\ncommand: [cat]\nredy: y\n", "has an unknown key 'redy'"),
        ("name: x\ncommand: cat\n", "command is 'cat'"),
        ("name: X y\ncommand: [cat]\n", "name is 'X y'"),
        ("name: x\ncommand: [cat]\nready: '('\n", "ready is no regular expression"),
        ("name: x\ncommand: [no-such-program]\n", "there is no program 'no-such-program'"),
        ("name: x\ncommand: [cat]\nready_within_s: soon\n", "ready_within_s is 'soon'"),
        ("name: x\ncommand: [cat]\nguarantee: always\n", "guarantee is 'always'"),
        ("name: [x\n", "line 2 is not YAML"),
        ("name: x\ncommand: [cat]\nname: y\n", "line 3 is not YAML: the key 'name' is there twice"),
    ],
)
def test_a_mistake_in_a_file_is_named(
    described: Callable[..., EngineKind], text: str, what: str
) -> None:
    with pytest.raises(UsageError) as caught:
        described(text=text)
    assert what in caught.value.what
    assert caught.value.remedy


def test_what_cannot_be_prepared_is_named_with_its_last_words(
    described: Callable[..., EngineKind], tmp_path: Path
) -> None:
    cluster = cast(Cluster, ProgramCluster(None, tmp_path))
    kind = described('prepare: ["sh", "-c", "echo no network >&2; exit 6"]\n')
    with pytest.raises(EnvironmentFailure) as caught:
        kind.open(Setup(scheme=SCHEME), cluster)
    assert "engine made-up could not be prepared: sh failed with exit code 6" in caught.value.what
    assert "no network" in caught.value.what


def test_the_example_of_the_documents_can_be_read() -> None:
    kind = find_engine("docs/examples/quix/engine.yaml")
    assert kind.lacks(Setup(scheme=SCHEME), word_count(depth=4), ClusterSpec(racks=2)) is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        find_engine(str(tmp_path / "engine.yaml"))


def test_a_python_file_gives_its_kind(tmp_path: Path) -> None:
    path = tmp_path / "engine.py"
    path.write_text("from tests.engines.toy import ToyKind\nENGINE = ToyKind()\n")
    assert find_engine(str(path)).name == "toy"
    other = tmp_path / "other.py"
    other.write_text("")
    with pytest.raises(UsageError, match="defines no ENGINE"):
        find_engine(str(other))


def test_only_the_named_workloads_are_run(described: Callable[..., EngineKind]) -> None:
    kind: Any = described("workloads: [word-count]\n")
    reason = kind.lacks(Setup(scheme=SCHEME), WORKLOAD, ClusterSpec())
    assert reason == "made-up runs word-count, and not workload 'sums'"


def test_an_engine_of_faultlines_own_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "engine.yaml"
    path.write_text("name: flink\ncommand: [cat]\n")
    with pytest.raises(UsageError, match="as one of Faultline's own"):
        find_engine(str(path))


def test_a_changed_program_is_another_engine(tmp_path: Path) -> None:
    path, program = tmp_path / "engine.yaml", tmp_path / "it.py"
    path.write_text('name: x\ncommand: ["{python}", "{here}/it.py", "{here}/gone", "/bin/cat"]\n')
    program.write_text("")
    assert engine_options([str(path), "tasks"]) == {
        "engine": [path, "tasks"],
        "engine_files": [program],
    }
    assert engine_options(["tasks"]) == {"engine": ["tasks"]}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.long
def test_an_engine_of_ones_own_from_its_file_to_the_page(tmp_path: Path) -> None:
    """It loses its state; the first kill of this seed hits a node that does nothing."""
    out, path = tmp_path / "results", tmp_path / "mine.yaml"
    path.write_text(
        f'name: mine\ncommand: ["{{python}}", "{MADE_UP}", "forgets"]\nguarantee: exactly-once\n'
    )
    run = ["run", "live/peers", "--engine", str(path), "--profile", "smoke", "--seed", "2"]
    done = CliRunner().invoke(cli, [*run, "--out", str(out), "--json"])
    assert done.exit_code == 1, done.output
    document = json.loads(done.stdout)
    (values,) = (one["values"] for one in document["runs"] if one["status"] == "ok")
    assert (values["engine_name"], values["kills"], values["hits"]) == ("mine", 2, 1)
    (claim,) = (c for c in document["claims"] if c["id"] == "own-engine-keeps-its-guarantee")
    assert claim["held"] is False
    assert claim["measured"]["contradictions"] + claim["measured"]["lost"] > 0
    path.unlink()
    pages = tmp_path / "pages"
    done = CliRunner().invoke(cli, ["report", "--out", str(out)])
    assert done.exit_code == 1, "the broken guarantee is all that is wrong"
    assert "report: " in done.stdout
    done = CliRunner().invoke(cli, ["site", "--from", str(out), "--out", str(pages)])
    assert done.exit_code == 0, done.output
    for page in (Path(document["report"]), pages / "index.html"):
        assert "mine" in page.read_text()
