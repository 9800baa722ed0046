"""Engines that are programs: the contract with a made-up one, and what can go wrong with one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from click.testing import CliRunner

from harness.cli.main import cli
from harness.cli.own_options import engine_options
from harness.cluster.base import Cluster, ClusterSpec
from harness.engines.base import EngineKind, Setup
from harness.engines.kinds import find_engine
from harness.engines.programs.described import SCHEME
from harness.engines.programs.engine import ProgramKind
from harness.engines.settings import Setting
from harness.errors import EnvironmentFailure, FaultlineError, UsageError
from harness.judging.passes import Pass
from harness.judging.runner import steady_plan
from harness.measurement import Context
from tests.engines.contract import EngineContract, EngineKindContract, Sharing
from tests.engines.programs.fake import DESCRIPTION, MADE_UP, WORKLOAD, ProgramCluster
from tests.engines.test_toy import imitated
from workloads.wordcount import word_count


def described(text: str, name: str = "engine.yaml") -> EngineKind:
    """Return the engine of a file with this text."""
    with TemporaryDirectory() as directory:
        path = Path(directory, name)
        path.write_text(text)
        return find_engine(str(path))


class TestMadeUpKind(EngineKindContract):
    kind, workload = described(DESCRIPTION), WORKLOAD


class TestMadeUp(EngineContract):
    kind, workload, setup = described(DESCRIPTION), WORKLOAD, Setup(scheme=SCHEME)
    load_s, kill_s, away_s, interval_s = 3.0, 1.2, 0.3, 0.1

    @pytest.fixture(scope="class")
    @classmethod
    def cluster(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
        with imitated(ProgramCluster, tmp_path_factory.mktemp("cluster")) as cluster:
            yield cluster


def with_fault(fault: str, more: str = "") -> str:
    """Return the made-up engine's description with a fault of its program, and with more lines."""
    return DESCRIPTION.replace('made_up.py"', f'made_up.py", "{fault}"') + more


def of_python(code: str) -> str:
    return f'name: made-up\nform: sums\ncommand: ["{{python}}", "-c", "{code}"]\n'


def failure_of(text: str, place: Path) -> FaultlineError:
    """Return the error of a pass of a described engine; nothing of it may be left."""
    plan = steady_plan("fault", WORKLOAD, 100, 1.0, 0.1)
    with imitated(ProgramCluster, place) as cluster:
        with (
            pytest.raises(FaultlineError) as caught,
            described(text).open(Setup(scheme=SCHEME), cluster) as engine,
            Pass(plan, cluster, engine, place, cast(Context, Sharing(engine, place))) as one,
        ):
            one.run()
        program = cast(ProgramCluster, cluster).program
        assert program is not None
        assert program.exit_code is not None, "nothing is left behind"
    return caught.value


@pytest.mark.parametrize(
    ("text", "kind", "words", "remedy"),
    [
        (with_fault("silent", "ready_within_s: 0.5\n"), EnvironmentFailure,
         ["did not print 'ready' on a line of its own within 0.5 s"], "ready_within_s"),
        (with_fault("garbled"), UsageError, ["wrote a result no JSON object", "b'?'"],
         "window_start, sum"),
        (with_fault("child"), UsageError, ["left processes behind when it was stopped: 1 on"],
         "SIGTERM"),
        (of_python("raise SystemExit('no licence')"), EnvironmentFailure,
         ["ended by itself with exit code 1", "no licence"], "until SIGTERM"),
        (of_python("import os; os.kill(os.getpid(), 9)"), EnvironmentFailure,
         ["was killed before it was ready"], "memory is short"),
    ],
    ids=["silent", "garbled", "child", "ends by itself", "killed"],
)  # fmt: skip
def test_an_engine_that_does_not_keep_its_part_is_named(
    tmp_path: Path,
    text: str,
    kind: type[FaultlineError],
    words: Sequence[str],
    remedy: str,
) -> None:
    error = failure_of(text, tmp_path)
    assert isinstance(error, kind)
    assert all(each in error.what for each in words)
    assert remedy in error.remedy


def test_a_pass_does_not_begin_with_other_settings_than_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Setting(part="r1n1", name="delay", asked="1 s", reported="2 s")
    monkeypatch.setattr(ProgramKind, "read_back", lambda *_: [other])
    error = failure_of(DESCRIPTION, tmp_path)
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
        ("name: flink\ncommand: [cat]\n", "as one of Faultline's own"),
    ],
)
def test_a_mistake_in_a_file_is_named(text: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        described(text)
    assert what in caught.value.what
    assert caught.value.remedy


def test_what_cannot_be_prepared_is_named_with_its_last_words(tmp_path: Path) -> None:
    cluster = cast(Cluster, ProgramCluster(None, tmp_path))
    more = 'prepare: ["sh", "-c", "echo no network >&2; exit 6"]\n'
    with pytest.raises(EnvironmentFailure) as caught:
        described(DESCRIPTION + more).open(Setup(scheme=SCHEME), cluster)
    assert "engine made-up could not be prepared: sh failed with exit code 6" in caught.value.what
    assert "no network" in caught.value.what


def test_the_example_of_the_documents_can_be_read() -> None:
    kind = find_engine("docs/examples/quix/engine.yaml")
    assert kind.lacks(Setup(scheme=SCHEME), word_count(depth=4), ClusterSpec(racks=2)) is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        find_engine(str(tmp_path / "engine.yaml"))


def test_a_python_file_gives_its_kind() -> None:
    code = "from tests.engines.toy import ToyKind\nENGINE = ToyKind()\n"
    assert described(code, "engine.py").name == "toy"
    with pytest.raises(UsageError, match="defines no ENGINE"):
        described("", "other.py")


def test_only_the_named_workloads_are_run() -> None:
    kind = described(DESCRIPTION + "workloads: [word-count]\n")
    reason = kind.lacks(Setup(scheme=SCHEME), WORKLOAD, ClusterSpec())
    assert reason == "made-up runs word-count, and not workload 'sums'"


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
