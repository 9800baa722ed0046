"""What was found out about verdicts of this group: see `harness.running.discovery.reasons`."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, Mapping[str, str]] = {
    "dpc/regions": {
        "There is a region of the lost parameters where all sentences hold together": (
            "Two sentences of Fig. 10 hold nowhere, and for one reason, which dpc/failure-duration "
            "gives with its size: with Delay & Process the batches that waited when the stream "
            "healed are processed tentatively with that stream's tuples in them, αX of its rate. "
            "None of the lost parameters changes that."
        ),
        "No sentence holds or fails by the choice of the lost parameters alone": (
            "Two depend on how long a redo takes. That Delay & Suspend breaks X = 3 s for every "
            "failure longer than 3 s needs a redo of more than 300 ms at the shortest of them, "
            "3.5 s: it holds where corrections are released when all are done and a tuple costs "
            "22 µs or more (with buckets of 500 ms, 44 µs). The slope of 1 in Fig. 9 is lost where "
            "a tuple costs 44 µs and corrections are released one by one: a short bound leaves "
            "more to redo, so at αX = 1 s the delay is half a second longer than αX, at 4 s less "
            "than a quarter of one. The figures here are made with the other rule, and 22 µs."
        ),
    },
}
