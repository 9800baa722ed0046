"""Every notebook runs from top to bottom on the results that ship; none holds logic or outputs."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.notebook.explore import advice, checkpoint_recovery, plans, utilization
from harness.notebook.own_run import timeline
from harness.notebook.rendering import notebooks
from harness.results import load
from harness.results.provenance import ROOT

ALL = notebooks()
SHORT = ("tour", "paper_dpc")
"""Notebooks that are run in the whole suite; the others take longer, and need nothing more."""


def code(notebook: Path) -> str:
    cells = json.loads(notebook.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(
            path,
            id=path.stem,
            marks=pytest.mark.deep if path.stem in SHORT else pytest.mark.long,
        )
        for path in ALL
    ],
)
def test_it_runs_without_a_cluster(notebook: Path, tmp_path: Path) -> None:
    # In a process of its own: what kernels warn of is not for this project to fix.
    command = [sys.executable, "-P", "-m", "harness.cli", "notebooks", notebook.stem]
    done = subprocess.run(
        [*command, "--render", "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / f"{notebook.stem}.html").read_text()
    assert "data:image" in page
    assert not re.search(r"<(script|link)[^>]*(src|href)=\"https?:", page), "needs the network"


@pytest.mark.parametrize("notebook", ALL, ids=lambda path: path.stem)
def test_it_has_no_outputs_and_no_logic(notebook: Path) -> None:
    for cell in json.loads(notebook.read_text())["cells"]:
        empty = not cell.get("outputs") and cell.get("execution_count") is None
        assert empty, f"run jupyter nbconvert --clear-output --inplace {notebook}"
    for node in ast.walk(ast.parse(code(notebook))):
        assert not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.For | ast.While | ast.Try)


def rendered(source: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Render a notebook with this one cell of code from within the directory ``work``."""
    document = json.loads((ROOT / "notebooks" / "tour.ipynb").read_text())
    document["cells"] = [{**document["cells"][1], "source": [source]}]
    (place / "one.ipynb").write_text(json.dumps(document))
    (place / "work").mkdir()
    script = (
        "import sys; from pathlib import Path; from harness.notebook import rendering as r;"
        "r.render(Path(sys.argv[1]), Path(sys.argv[2]));"
        "import psutil; left = psutil.Process().children(recursive=True);"
        "sys.exit(f'still running: {left}' if left else 0)"
    )
    return subprocess.run(
        [sys.executable, "-P", "-c", script, str(place / "one.ipynb"), str(place / "html")],
        cwd=place / "work",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_cell_that_fails_is_named(tmp_path: Path) -> None:
    done = rendered("load_nothing()", tmp_path)
    assert "one.ipynb: a cell failed: NameError" in done.stderr


@pytest.mark.deep
def test_it_is_rendered_from_any_directory_and_leaves_nothing_there(tmp_path: Path) -> None:
    """Neither the kernel's directory nor the user's gets their sockets."""
    before = set(ROOT.iterdir())
    done = rendered("6 * 7", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "42" in (tmp_path / "html" / "one.html").read_text()
    assert not list((tmp_path / "work").iterdir())
    assert not [path for path in set(ROOT.iterdir()) - before if "kernel" in path.name]


def test_an_unknown_notebook_is_refused() -> None:
    with pytest.raises(UsageError, match="no notebook 'tuor'") as error:
        notebooks(["tuor"])
    assert "tour" in error.value.remedy


@pytest.mark.parametrize(
    "card",
    [
        utilization,
        plans,
        checkpoint_recovery,
        advice,
        lambda: timeline(load(), load().timelines["run"].iloc[0]),
    ],
    ids=["utilization", "plans", "recovery", "advice", "timeline"],
)
def test_what_can_be_changed_answers(card: Callable[[], Any]) -> None:
    assert "data:image/svg+xml" in card()._repr_html_()


def test_ones_own_run_goes_into_the_checkout_wherever_the_kernel_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JupyterLab's kernels work in the notebook's folder, the renderer's in the checkout."""
    monkeypatch.chdir(tmp_path)
    (own,) = (notebook for notebook in ALL if notebook.stem == "my_own_run")
    names: dict[str, object] = {}
    exec(code(own).split("if RUN")[0], names)
    assert names["OUT"] == ROOT / "results" / "my-own-run"
    assert not list(tmp_path.iterdir())


def test_ones_own_notebook_shows_one_experiment_whether_it_runs_or_not() -> None:
    (own,) = (notebook for notebook in ALL if notebook.stem == "my_own_run")
    assert code(own).count("== EXPERIMENT") == 1
    assert not re.search(r"\b(stock|live)/", code(own)), "EXPERIMENT is its name"
