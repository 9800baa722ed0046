"""Which scheme, interval and plan for a job: from formulas, beside the runs that come nearest."""
