"""The reader of failure logs: its forms and errors, and the known statistics of LANL's records."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import weibull_min

from datasets.failure_logs import gaps_s, of_system, read_failures, trace
from harness.errors import UsageError

ROOT = Path(__file__).parent.parent.parent
REAL = ROOT.parent / "shared/data/failures/LA-UR-05-7318-failure-data-1996-2005.csv.gz"

DAY = 1772323200.0
"""2026-03-01, midnight in UTC."""
FORMS = {
    "LANL": "System,nodenumz,nodes,Prob Started,Prob Fixed,Down Time\n"
    "7,a,16,3/1/2026 0:00,3/1/2026 0:10,10\n7,b,16,3/1/2026 0:02,,\n",
    "ISO, one with another zone": "node,failed,repaired\n"
    "a,2026-03-01T00:00:00Z,2026-03-01T00:10:00Z\nb,2026-03-01 01:02:00+01:00,\n",
    "ISO without a zone, semicolons": "host;start;end\n"
    "a;2026-03-01 00:00;2026-03-01 00:10\nb;2026-03-01 00:02;\n",
    "seconds": "node,failed,repaired\na,1772323200,1772323800\nb,1772323320,\n",
    "milliseconds": "node,failed,repaired\na,1772323200000,1772323800000\nb,1772323320000,\n",
    "microseconds": "machine,down,up\n"
    "a,1772323200000000,1772323800000000\nb,1772323320000000,null\n",
    "Failure Trace Archive": "# event_id\tcomponent_id\tnode_id\tplatform_id\tnode_name\t"
    "event_type\tevent_start_time\tevent_stop_time\tevent_end_reason\n"
    "0\t1\ta\t0\tx\t0\t1772323200\t1772323800\t0\n"
    "1\t1\ta\t0\tx\t1\t1772323800\t1772329999\t0\n"
    "2\t1\tb\t0\ty\t0\t1772323320\tNULL\t0\n",
    "Google, 2011": "1772323100000000,a,0,p,0.5,0.5\n1772323200000000,a,1,p,0.5,0.5\n"
    "1772323320000000,b,1,p,,\n1772323500000000,a,2,p,0.5,0.5\n"
    "1772323800000000,a,0,p,0.5,0.5\n",
    "Google, 2019": "time,machine_id,type\n1772323200000000,a,2\n1772323320000000,b,2\n"
    "1772323800000000,a,1\n",
    "Google, 2019, JSON": '{"time": "1772323200000000", "machine_id": "a", "type": "REMOVE"}\n'
    '{"time": "1772323320000000", "machine_id": "b", "type": "REMOVE"}\n'
    '{"time": "1772323800000000", "machine_id": "a", "type": "ADD"}\n',
}


def write(path: Path, text: str, name: str = "log.csv") -> Path:
    file = path / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return file


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_failures(tmp_path: Path, form: str, name: str) -> None:
    found = read_failures(write(tmp_path, FORMS[form], name))
    assert found["node"].tolist() == ["a", "b"]
    assert found["began_s"].tolist() == [DAY, DAY + 120]
    assert found["ended_s"].iloc[0] == DAY + 600
    assert np.isnan(found["ended_s"].iloc[1])


def test_a_failed_disk_stays_away(tmp_path: Path) -> None:
    text = (
        "date,serial_number,model,capacity_bytes,failure\n"
        "2026-03-01,Z1,M,1,0\n2026-03-01,Z2,M,1,1\n2026-03-02,Z1,M,1,1\n"
    )
    found = read_failures(write(tmp_path, text))
    assert found["node"].tolist() == ["Z2", "Z1"]
    assert found["began_s"].tolist() == [DAY, DAY + 86400]
    assert found["ended_s"].isna().all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node,failed\na,yesterday\n", r"log\.csv, line 2: failed is 'yesterday'"),
        ("node,failed\na,2026-03-01\nb,\n", r"log\.csv, line 3: failed is empty"),
        ("node,failed,repaired\na,20,10\n", r"log\.csv, line 2: repaired at .* before it failed"),
        ("a,b\nx,y\n", "no column with the time of a failure, but a, b"),
        ("node,failed\n", "has no failure"),
        ('{"time": 1\n', "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        read_failures(write(tmp_path, text))
    assert caught.value.remedy


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_failures(tmp_path / "absent.csv")


def test_one_of_several_systems_is_chosen(tmp_path: Path) -> None:
    rows = "".join(f"{system},a,{at}\n" for system in (7, 8) for at in (0, 60, 180))
    found = read_failures(write(tmp_path, "system,node,failed\n" + rows + "9,a,5\n"))
    assert gaps_s(of_system(found, "7", "log")).tolist() == [60.0, 120.0]
    assert trace(of_system(found, "7", "log")).mean_s == 90.0
    with pytest.raises(UsageError, match="log holds the systems 7, 8, 9"):
        of_system(found, None, "log")
    with pytest.raises(UsageError, match="system 6 has no failure"):
        of_system(found, "6", "log")
    with pytest.raises(UsageError, match="system 9 has 1 failures"):
        gaps_s(of_system(found, "9", "log"))


@pytest.fixture(scope="module")
def real() -> pd.DataFrame:
    if not REAL.exists():
        pytest.skip(f"the real records are not at {REAL}")
    return read_failures(REAL)


@pytest.mark.parametrize(
    ("system", "failures", "rate_per_h", "mtbf_h", "shape", "scale_h"),
    [
        (2, 7104, 0.0939, 10.65, 0.738, 11.47),
        (8, 475, 0.0124, 80.4, 0.711, 67.4),
        (9, 280, 0.0172, 58.2, 0.544, 30.6),
        (12, 259, 0.0159, 62.8, 0.609, 41.8),
        (16, 2680, 0.0542, 18.4, 0.720, 16.95),
        (18, 3997, 0.1364, 7.33, 0.817, 6.63),
        (19, 3284, 0.1295, 7.72, 0.889, 7.37),
        (20, 2478, 0.0760, 13.16, 0.647, 9.55),
    ],
)
def test_each_system_fails_as_known(
    real: pd.DataFrame,
    system: int,
    failures: int,
    rate_per_h: float,
    mtbf_h: float,
    shape: float,
    scale_h: float,
) -> None:
    one = of_system(real, str(system), "LANL")
    gaps_h = gaps_s(one) / 3600.0
    assert len(one) == failures
    assert 1.0 / gaps_h.mean() == pytest.approx(rate_per_h, rel=0.006)
    assert gaps_h.mean() == pytest.approx(mtbf_h, rel=0.006)
    fitted_shape, _, fitted_scale = weibull_min.fit(gaps_h[gaps_h > 0], floc=0)
    assert fitted_shape == pytest.approx(shape, abs=6e-4)
    assert fitted_scale == pytest.approx(scale_h, rel=2e-3)


def test_repairs_last_as_known(real: pd.DataFrame) -> None:
    assert len(real) == 23739
    minutes = (real["ended_s"] - real["began_s"]) / 60
    minutes = minutes[minutes > 0]
    assert minutes.median() == pytest.approx(60, rel=0.02)
    # Tolerances cover the few records in which the two times and the downtime disagree.
    assert minutes.mean() == pytest.approx(355, rel=0.04)
    assert np.log(minutes).std() == pytest.approx(1.402, abs=0.02)


def test_the_early_years_of_system_2_failed_in_bursts(real: pd.DataFrame) -> None:
    early = real[(real["system"] == "2") & (real["began_s"] < pd.Timestamp("2000").timestamp())]
    gaps = gaps_s(early)
    assert (gaps == 0).mean() == pytest.approx(0.42, abs=0.005)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(7.0, abs=0.1)
