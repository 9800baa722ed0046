"""Checkpoint intervals: the utilization model, its rivals, a simulator, an online tuner.

* `harness.intervals.utilization` – equations 1–10 of Jayasekara, Harwood and Karunasekera
  (FGCS 2020) and the optimal interval by Lambert's W;
* `harness.intervals.rivals` – Young, Daly (both orders) and Zhuang et al.;
* `harness.intervals.renewal` – the exact utilization when failures are not exponential;
* `harness.intervals.failure_models` – times between failures and restart times, drawn;
* `harness.intervals.simulator` – the abstract system failing at random;
* `harness.intervals.adaptive` – the interval tuned while running.

An *interval* is the whole period T from one checkpoint's completion to the next, the
checkpoint's own cost c included. Everything is in seconds, rates are per second."""
