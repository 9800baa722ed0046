"""``faultline datasets``: its output and its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.dataset
import pytest
from click.testing import CliRunner, Result

from harness.cli.main import cli
from tests.cli.kit import refusal
from tests.datasets.logs import possible_records, write_log


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["datasets", *map(str, arguments)])


def test_every_data_set_is_listed() -> None:
    listed = ["worldcup", "traffic", "accident", "text", "lanl"]
    assert list(json.loads(invoke("--json").stdout)) == listed
    assert "Internet Traffic Archive" in invoke().stdout
    assert "Internet Traffic Archive" in invoke("worldcup").stdout


def test_check_says_what_the_files_hold(tmp_path: Path) -> None:
    records = possible_records(30)
    records["object"] = [5] * 10 + [3] * 10 + [9] * 10
    records["server"] = 33
    log = write_log(tmp_path / "wc_day66_1.gz", records)
    assert json.loads(invoke("worldcup", "check", log, "--json").stdout) == {
        "records": 30,
        "first_timestamp": int(records["timestamp"][0]),
        "last_timestamp": int(records["timestamp"][-1]),
        "servers": {"33": 30},
        "top_objects": [[3, 10], [5, 10], [9, 10]],
    }
    assert "Plano 1" in invoke("worldcup", "check", log).stdout


def test_verify_fails_where_the_archive_published_another_number(tmp_path: Path) -> None:
    log = write_log(tmp_path / "wc_day66_1", possible_records(30))
    result = invoke("worldcup", "verify", log, "--json")
    found = "day 66, part 1: 30 requests, but the archive published 6,999,999"
    assert found in str(refusal(result))
    [different] = json.loads(result.stdout)["different"]
    assert different == {"what": "day 66, part 1", "published": 6_999_999, "found": 30}


def test_a_bad_file_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "wc_day66_1"
    log.write_bytes(b"\0" * 30)
    for name in ("check", "verify"):
        assert str(log) in refusal(invoke("worldcup", name, log)).what


@pytest.mark.parametrize("top", [0, -1])
def test_listing_no_objects_is_refused(top: int, tmp_path: Path) -> None:
    log = write_log(tmp_path / "wc_day66_1", possible_records(30))
    result = invoke("worldcup", "check", log, "--top", str(top), "--json")
    assert f"--top {top}" in refusal(result).what
    assert not result.stdout
    one = invoke("worldcup", "check", log, "--top", "1", "--json")
    assert len(json.loads(one.stdout)["top_objects"]) == 1


def test_convert_writes_every_record_to_parquet(tmp_path: Path) -> None:
    for part in (1, 2):
        write_log(tmp_path / f"wc_day66_{part}.gz", possible_records(300, start_s=100 * part))
    target = tmp_path / "out.parquet"
    result = invoke("worldcup", "convert", tmp_path, target)
    assert result.exit_code == 0, result.output
    table = pyarrow.dataset.dataset(target, format="parquet").to_table().to_pandas()
    assert table.groupby("part").size().to_dict() == {1: 300, 2: 300}
    first = table[table["part"] == 1].reset_index(drop=True)
    expected = possible_records(300, start_s=100)
    assert first["timestamp"].tolist() == expected["timestamp"].tolist()
    assert first["object"].tolist() == expected["object"].tolist()
    assert f"{target} exists" in refusal(invoke("worldcup", "convert", tmp_path, target)).what
