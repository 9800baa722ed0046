"""Series of several runs as one table."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from harness.results.tables import Results


def series(tmp_path: Path, *parts: pd.DataFrame) -> pd.DataFrame:
    directories = {}
    for number, part in enumerate(parts):
        directories[str(number)] = tmp_path / str(number)
        directories[str(number)].mkdir(parents=True)
        part.to_parquet(directories[str(number)] / "windows.parquet", index=False)
    frame = pd.DataFrame({"run": list(directories), "x": range(len(parts))})
    return Results(frame, directories).series("windows", ["x"])


def test_a_column_that_is_empty_in_one_run_has_the_type_that_it_has_in_others(
    tmp_path: Path,
) -> None:
    """Warnings are errors here."""
    found = series(
        tmp_path,
        pd.DataFrame({"late_s": pd.Series([None, None], dtype=object), "count": [1, 2]}),
        pd.DataFrame({"late_s": [0.5], "count": [3]}),
    )
    assert list(found.columns) == ["late_s", "count", "run", "x"]
    assert found["late_s"].dtype == float
    assert found["late_s"].isna().tolist() == [True, True, False]
    assert found["x"].tolist() == [0, 0, 1]


def test_a_column_that_is_empty_everywhere_stays(tmp_path: Path) -> None:
    """Reasons are words: a table may get one later where no run had any."""
    part = pd.DataFrame(
        {
            "why_not": pd.Series([None], dtype=object),
            "late_s": pd.Series([None], dtype=float),
            "count": [1],
        }
    )
    found = series(tmp_path, part, part)
    assert found["why_not"].isna().all()
    assert str(found["why_not"].dtype) == "object"
    assert str(found["late_s"].dtype) == "float64"
    found.loc[0, "why_not"] = "a warning would be an error"
