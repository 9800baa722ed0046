"""The nightly gate: what got slower, and which claim stopped holding, told once and rightly."""
