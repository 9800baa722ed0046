"""The agent of a machine: the one implementation of starting, killing and counting its processes.

``agent`` is its work, ``wire`` the way to one on another machine, ``__main__`` the program there,
``workers`` a cluster's workers in the hands of agents.

Tests: ``tests/cluster/agent``."""
