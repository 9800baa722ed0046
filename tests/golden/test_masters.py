"""What the code makes of fixed inputs is what it made of them before.

Smoke runs are compared where they are made (tests/running/test_discovery.py)."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from harness.pages.answers import answers, in_readme
from harness.pages.questions import QUESTIONS
from harness.pages.site import SHIPPED_SITE
from harness.protocol.schemes import SCHEMES
from harness.results.provenance import ROOT
from tests.engines.tasks.virtual.trace_of_seed import trace as host_trace
from tests.golden.masters import KINDS, RENEW, SEEDS, differing, main, of_seed, shipped
from tests.levels import amount
from tests.simulator.trace_of_seed import trace as protocol_trace

TRACES = {"protocol": protocol_trace, "host": host_trace}


@pytest.mark.deep
@pytest.mark.xdist_group("shipped")
@pytest.mark.parametrize("kind", ["verdicts", "tables", "kills"])
def test_the_records_that_ship_say_the_same(kind: str) -> None:
    assert not differing(kind, KINDS[kind]()), RENEW


@pytest.mark.deep
@pytest.mark.xdist_group("shipped")
def test_the_readme_has_the_findings_of_the_records_that_ship() -> None:
    readme = (ROOT / "README.md").read_text()
    site = SHIPPED_SITE.relative_to(ROOT).as_posix()
    found = answers(shipped(), QUESTIONS)
    assert readme == in_readme(readme, found, site), "renew it: ./faultline site --shipped"


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [
        *(("protocol", scheme) for scheme in SCHEMES),
        ("host", "ppa"),
        *(
            pytest.param("host", scheme, marks=pytest.mark.deep)
            for scheme in SCHEMES
            if scheme != "ppa"
        ),
    ],
)
def test_a_seed_has_the_same_trace(kind: str, scheme: str) -> None:
    seeds = SEEDS[: amount(len(SEEDS))]
    masters = [of_seed(scheme, seed, TRACES[kind]) for seed in seeds]
    assert not differing(kind, masters, whole=False), RENEW


def test_a_change_is_named() -> None:
    name, text = f"{next(iter(SCHEMES))} 0", "another text"
    assert differing("host", [(name, text)], whole=False) == [f"host: {name} differs"]
    assert differing("host", [("other 0", text)], whole=False) == ["host: other 0 is new"]
    assert len(differing("host", [])) == len(SCHEMES) * len(SEEDS)


def test_an_unknown_kind_is_refused() -> None:
    refused = CliRunner().invoke(main, ["verdict"])
    assert refused.exit_code == 2
    assert "'verdict' is not one of" in refused.output
