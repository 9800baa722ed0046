"""The nightly gate: what got slower than at an earlier revision, and which claims broke."""
