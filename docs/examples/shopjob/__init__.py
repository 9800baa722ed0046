"""A package of one's own, as a job has it."""
