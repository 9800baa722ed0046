"""The report: each figure with the paper's claims, their verdicts and numbers."""
