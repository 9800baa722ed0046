"""The load generator: open loop, seeded, every record with the time it is meant to be sent."""
