"""``faultline report``: the report, written again from the records."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.cache import to_stderr
from harness.cli.options import THERE, out_option
from harness.cli.output import json_option, show
from harness.errors import UsageError

_EPILOG = """\b
Examples:
  ./faultline report
  ./faultline report --out /data/faultline --strict
  ./faultline report --from results/baselines --out shipped
  ./faultline report --from other.zip --out other
  ./faultline report --json | python3 -m json.tool
"""


@click.command("report", epilog=_EPILOG)
@out_option
@click.option(
    "--from",
    "source",
    type=THERE,
    help="Results to show instead: a directory, or an archive of `export --raw`, of any machine.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 also when a paper's claim fails.")
@json_option
def command(out: Path, source: Path | None, strict: bool, as_json: bool) -> None:
    """Write report/index.html and report/claims.json from the records of this machine."""
    from harness.cli.measure import FAILED_CLAIM, exit_code, verdict_line
    from harness.pages.report import write_report
    from harness.pages.sentences import score_lines
    from harness.results.archive import shown_machine
    from harness.results.store import RecordStore

    root = source or out
    machine = shown_machine(root, any_of_them=source is not None)
    if machine is None:
        raise UsageError(
            f"nothing has been measured into {root} on this machine yet"
            if source is None
            else f"there are no records in {source}",
            remedy="run ./faultline reproduce first, or name its directory with --out DIR; "
            "./faultline report --from results/baselines --out shipped shows the results "
            "that ship with the repository",
        )
    report = write_report(RecordStore(root, warn=to_stderr), into=out / "report", machine=machine)
    claims = [document for item in report.judged for document in item.documents()]
    lines = [
        *(f"{i.experiment.id} ({i.profile.value}): {verdict_line(i)}" for i in report.judged),
        "sentences, each counted once:",
        *(f"  {line}" for line in score_lines(report.judged)),
        f"report: {report.index}",
    ]
    show({"report": str(report.index), "claims": claims}, lines, as_json=as_json)
    sys.exit(FAILED_CLAIM if exit_code(report.judged, strict=strict) == FAILED_CLAIM else 0)
