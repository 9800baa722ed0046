"""The nightly gate: slower loops than at an earlier revision, and broken claims."""
