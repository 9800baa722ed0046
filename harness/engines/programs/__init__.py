"""Engines that are programs: topics in and out, and a command to start on each node.

Faultline knows nothing of their inside. `start` has what the author of one gives, `described` reads
it from a YAML file, `engine` fulfils the contract with it, and computes what is due.
docs/own-engine.md is the way in."""
