from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from tests.workloads.kit import loaded
from workloads.base import Reference, Source
from workloads.files import carry
from workloads.own import load_workload_file
from workloads.packages import packed, places

GOOD = """
from workloads.base import Reference, Source, Workload

class Numbers:
    def __init__(self, *, step):
        self.step = step
    def payloads(self, partition, start_index, count):
        return [str(self.step * (start_index + i)).encode() for i in range(count)]

WORKLOAD = Workload(
    name="numbers",
    sources=[Source(name="numbers", records=Reference(
        target=f"{__file__}:Numbers", parameters={"step": 3}))],
    forms={"query": lambda spark, sources: sources["numbers"]},
    identity=["window_start"], values=["value"], window_start="window_start",
    window_s=2, slide_s=2, watermark_delay_s=1,
)
"""


def test_a_second_file_is_sent_with_a_query(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("FACTOR = 2\n")
    path = tmp_path / "mine.py"
    workload = loaded(path, "from beside_it import FACTOR\n" + GOOD)
    assert places(path, workload.packages) == [tmp_path / "beside_it.py"]
    with zipfile.ZipFile(packed(places(path, ()), tmp_path)) as archive:
        assert archive.namelist() == ["beside_it.py"]


def test_a_second_file_is_refused_with_a_topology(tmp_path: Path) -> None:
    (tmp_path / "another.py").write_text("FACTOR = 2\n")
    query = '"query": lambda spark, sources: sources["numbers"]'
    tasks = GOOD.replace(query, '"tasks": Reference(target="a.b:c")')
    with pytest.raises(UsageError, match=r"imports another\.py") as caught:
        loaded(tmp_path / "mine.py", "from another import FACTOR\n" + tasks)
    assert "a topology of tasks is one file" in caught.value.remedy


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No module named 'nowhere_at_all'") as caught:
        loaded(tmp_path / "mine.py", "from nowhere_at_all import FACTOR\n" + GOOD)
    assert "lies next to its file" in caught.value.remedy


def test_a_carried_file_is_built_where_it_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.py"
    carry({str(path): GOOD})
    workload = load_workload_file(path)
    assert workload.name == "numbers"
    assert load_workload_file(path).forms is workload.forms, "it is executed once"
    carry({str(path): GOOD.replace('name="numbers",\n    sources', 'name="others",\n    sources')})
    assert load_workload_file(path).name == "others", "unless it has changed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("WORKLOAD =", "MINE ="), "defines no WORKLOAD"),
        (("    window_s=2,", "   "), r"line 1\d: TypeError: .*window_s"),
        (("name=", "nam="), r"line 1\d: TypeError: .*nam"),
        (("class Numbers:", "class Numbers"), "line 4: expected ':'"),
        (("def payloads", "def records"), "Numbers, which has no payloads"),
        (("range(count)", "range(1)"), r"payloads\(0, 0, 3\) gave"),
        (("import Reference", "import Referenc"), "line 2: ImportError"),
        (('window_start="window_start"', 'window_start="window"'), "do not fit together"),
        (('values=["value"]', "values=[]"), "names no value columns"),
        (("window_s=2", "window_s=0"), "window_s is 0"),
        (('"query": lambda spark, sources: sources["numbers"]', '"query": {}'), "query is a dict"),
        (('"query": lambda spark, sources: sources["numbers"]', ""), "has no form"),
        (('"query": lambda', '"tasks": lambda'), "tasks is a function"),
        (('["window_start"]', '"window_start"'), r"identity is the text 'window_start'"),
        (('["value"]', '"value"'), r"values is the text 'value'"),
        (('{"step": 3}', '{"stepp": 3}'), "cannot be called with the parameters .*'stepp'"),
        (('{"step": 3}', "{}"), "missing a required argument: 'step'"),
        (("self.step = step", "self.step = self.keys = step"), r"Numbers.keys is 3"),
        (("self.step = step", "self.step = 1 / 0"), r"line 6: source 'numbers': .*ZeroDivision"),
        (("self.step *", "1 // 0 *"), "line 8: .* ZeroDivisionError"),
        (("range(count)]", "None]"), r"payloads\(0, 0, 3\) raised TypeError"),
        (("self.step *", "__import__('time').time_ns() *"), "is not deterministic"),
        (("(start_index + i)", "i"), "is not deterministic"),
    ],
)
def test_what_a_file_lacks_is_named(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loaded(tmp_path / "mine.py", GOOD, change)


def test_a_missing_file() -> None:
    with pytest.raises(UsageError, match="there is no file"):
        load_workload_file(Path("/nowhere/mine.py"))


@pytest.mark.parametrize("target", ["workloads.wordcount", ":x", "a:b c", ""])
def test_a_reference_names_an_object(target: str) -> None:
    with pytest.raises(UsageError, match="names no object"):
        Reference(target=target)


def test_a_reference_to_what_is_not_there_suggests_what_is() -> None:
    with pytest.raises(UsageError, match="did you mean 'word_count'"):
        Reference(target="workloads.wordcount:wordcount").build()


@pytest.mark.parametrize("wrong", [{"partitions": 0}, {"share": 0.0}, {"name": "Über"}])
def test_sources_are_checked(wrong: dict[str, Any]) -> None:
    records = Reference(target="datasets.text:TextLines")
    with pytest.raises(UsageError):
        Source(**{"name": "lines", "records": records, **wrong})
