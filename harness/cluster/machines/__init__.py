"""Several machines: hosts reached by SSH, with an agent on each and nothing installed before.

``settings`` is the file that describes them, ``ssh`` the connections, ``sending`` what a machine
lacks, ``machine`` one machine with its agent, ``cluster`` the backend.

Tests: ``tests/cluster/machines``."""
