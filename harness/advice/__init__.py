"""A scheme, an interval and a plan for a job: from formulas, with the most similar runs."""
