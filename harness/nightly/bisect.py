"""The first revision that made a metric worse: `git bisect run` with the gate's own statistics.

Git chooses the revisions. Each is measured by a process of its own, this module as a program, which
compares it with the good revision and answers by its exit code. Git keeps its notes in an empty
worktree, so the checkout and a bisection of the user's own are left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.errors import EnvironmentFailure, UsageError
from harness.nightly.revisions import Revision, git, resolve
from harness.nightly.statistics import Change, Comparison, Pairs

MOST_PAIRS = 48
GOOD, BAD, SKIP = 0, 1, 125
"""Exit codes of a program that `git bisect run` starts."""
_UNDECIDED = 2
"""Exit code of `git bisect run` when only skipped revisions are left."""
PROGRAM: tuple[str, ...] = (sys.executable, "-P", "-m", "harness.nightly.bisect")

Measure = Callable[[int, int], Pairs]
"""The metric's pairs of the good revision and another one, from a count and an unused seed. Raises
`EnvironmentFailure` where the revision cannot be built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The judgement on one revision."""

    commit: str
    worse: bool | None
    """None where it could not be decided, and the revision was skipped."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    """Its cost over the good revision's, with the ends of the interval."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The revision where the metric became worse."""

    first_worse: Revision
    others: Sequence[Revision]
    """Older revisions that could not be measured: one of them may be the first instead."""
    steps: Sequence[Step]

    @property
    def decisive(self) -> Step:
        """The step that measured the first worse revision."""
        return next(step for step in self.steps if step.commit == self.first_worse.commit)


def is_worse(revision: Revision, measure: Measure, *, pairs: int, seed: int) -> Step:
    """Measure the last revision. Raises `UsageError` unless the gate calls it worse."""
    effect = _compared(measure(pairs, seed), revision, seed)
    if effect.verdict is not Change.WORSE:
        raise UsageError(
            f"{revision.short} is not measurably worse: {effect.ratio:.3f} times, 99 % "
            f"interval {effect.low:.3f} to {effect.high:.3f}",
            remedy="give the revisions of which the nightly report said so, or more --pairs",
        )
    return _step(revision, effect, worse=True)


def judge(revision: Revision, measure: Measure, threshold: float, *, pairs: int, seed: int) -> Step:
    """Put a revision on the side of good or of bad, whichever its ratio is nearer to.

    ``threshold`` is the ratio between the two. While the interval holds it, more pairs are taken.
    """
    found = Pairs(baseline=(), tonight=())
    while True:
        try:
            found += measure(pairs, seed + len(found.baseline))
            compared = _compared(found, revision, seed)
        except EnvironmentFailure as error:
            return Step(commit=revision.commit, worse=None, why=error.what)
        if not compared.low <= threshold <= compared.high:
            return _step(revision, compared, worse=compared.low > threshold)
        if len(found.baseline) >= MOST_PAIRS:
            why = f"undecided after {compared.pairs} pairs: the machine is too noisy"
            return _step(revision, compared, worse=None, why=why)


def _compared(found: Pairs, revision: Revision, seed: int) -> Comparison:
    compared = found.compare(seed=seed)
    if compared is None:
        raise EnvironmentFailure(
            f"{revision} has no number for this metric",
            remedy="choose revisions between which the metric was measured",
        )
    return compared


def _step(revision: Revision, found: Comparison, *, worse: bool | None, why: str = "") -> Step:
    return Step(
        commit=revision.commit, worse=worse, ratio=found.ratio, low=found.low, high=found.high,
        why=why,
    )  # fmt: skip


def bisect(good: Revision, last: Step, metric: str, *, pairs: int) -> Found:
    """Find the first worse revision after ``good``, up to that of ``last``, by first parents."""
    assert last.ratio is not None
    with TemporaryDirectory(prefix="faultline-bisect-") as folder:
        tree, log = Path(folder, "tree"), Path(folder, "steps.jsonl")
        log.write_text(json.dumps(asdict(last)) + "\n")
        git("worktree", "add", "--detach", "--no-checkout", str(tree), last.commit)
        try:
            git(
                "bisect",
                "start",
                "--no-checkout",
                "--first-parent",
                last.commit,
                good.commit,
                at=tree,
            )
            if git("rev-list", "--first-parent", "--count", f"{good.commit}..{last.commit}") != "1":
                _run([metric, good.commit, str(pairs), str(last.ratio**0.5), str(log)], tree)
            first = git("rev-parse", "refs/bisect/bad", at=tree)
            known = git("for-each-ref", "--format=%(objectname)", "refs/bisect/good-*", at=tree)
            left = git(
                "rev-list", "--reverse", "--first-parent", f"{first}^", "--not", *known.split()
            )
        finally:
            git("worktree", "remove", "--force", str(tree))
        steps = [Step(**json.loads(line)) for line in log.read_text().splitlines()]
    others = [resolve(commit) for commit in left.split()]
    return Found(first_worse=resolve(first), others=others, steps=steps)


def _run(arguments: Sequence[str], tree: Path) -> None:
    done = subprocess.run(
        ["git", "bisect", "run", *PROGRAM, *arguments],
        cwd=tree, check=False, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode not in (0, _UNDECIDED):
        raise EnvironmentFailure(
            f"git bisect run ended with {done.returncode}",
            remedy="see the lines above; ./faultline nightly --baseline REVISION measures one step",
        )


def main() -> int:
    """Measure the revision that git chose, note the step, and return git's exit code."""
    from harness.environment.cache import to_stderr
    from harness.nightly.gate import measure_of
    from harness.seeds import DEFAULT_SEED, derive_seed

    metric, good, pairs, threshold, log = sys.argv[1:]
    revision = resolve(git("rev-parse", "BISECT_HEAD", at=Path.cwd()))
    measure = measure_of(metric, resolve(good), revision, report=to_stderr)
    seed = derive_seed(DEFAULT_SEED, "bisect", metric, revision.commit)
    step = judge(revision, measure, float(threshold), pairs=int(pairs), seed=seed)
    with Path(log).open("a") as file:
        file.write(json.dumps(asdict(step)) + "\n")
    to_stderr(f"{revision}: {words(step)}")
    return SKIP if step.worse is None else BAD if step.worse else GOOD


def words(step: Step) -> str:
    """Return the judgement in a few words."""
    side = {True: "worse", False: "as good", None: f"skipped: {step.why}"}[step.worse]
    return side if step.ratio is None else f"{side}, {cost(step)}"


def cost(step: Step) -> str:
    """Return the ratio with its interval."""
    return f"{step.ratio:.3f} times (99 % interval {step.low:.3f} to {step.high:.3f}) the cost"


if __name__ == "__main__":
    sys.exit(main())
