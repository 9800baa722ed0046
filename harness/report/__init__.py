"""The report: every figure beside the paper's claim, held or not, with its numbers."""
