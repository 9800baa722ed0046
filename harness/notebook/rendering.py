"""Notebooks run from top to bottom without a browser, to HTML."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.errors import EnvironmentFailure, UsageError
from harness.results.provenance import ROOT
from harness.text import did_you_mean

NOTEBOOKS = ROOT / "notebooks"
_CELL_TIMEOUT_S = 120


def notebooks(names: Sequence[str] = ()) -> list[Path]:
    """Return the notebooks with these names (without the ending), or all. Raises `UsageError`."""
    known = {path.stem: path for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no notebook {name!r}", remedy=did_you_mean(name, known))
    return [known[name] for name in names] if names else list(known.values())


def render(notebook: Path, folder: Path) -> Path:
    """Run a notebook in a fresh kernel of this environment, and write it as one HTML file.

    Raises `EnvironmentFailure` with the cell and the error if one fails."""
    import nbformat
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from nbconvert import HTMLExporter

    content: Any = nbformat.read(notebook, as_version=4)
    # Sockets in a directory of this user's alone, not ports that others could reach. Without a
    # path of their own they would lie where the kernel works, which is not where we do.
    with TemporaryDirectory(prefix="faultline-kernel-") as sockets:
        client = NotebookClient(
            content,
            km=AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel"),
            timeout=_CELL_TIMEOUT_S,
            resources={"metadata": {"path": str(ROOT)}},
        )
        try:
            client.execute(cleanup_kc=True)  # else it leaves a kernel that was given to it
        except CellExecutionError as error:
            raise EnvironmentFailure(
                f"{notebook.name}: a cell failed: {error.ename}: {error.evalue}",
                remedy="open it with ./faultline notebooks and run it cell by cell",
            ) from error
    exporter = HTMLExporter(
        mathjax_url="", require_js_url="", jquery_url="", jupyter_widgets_base_url="", theme="light"
    )
    body, _ = exporter.from_notebook_node(content)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{notebook.stem}.html"
    target.write_text(body)
    return target


def lab_command(names: Sequence[Path]) -> list[str]:
    """Return the command that opens JupyterLab on the notebooks.

    Its kernels' sockets are next to their connection files, in this user's Jupyter directory."""
    chosen = names[0] if len(names) == 1 else NOTEBOOKS
    return [sys.executable, "-m", "jupyterlab", "--KernelManager.transport=ipc", str(chosen)]
