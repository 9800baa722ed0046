"""Apache Flink behind the engine contract: its own jars, its own SQL gateway, fetched on demand.

``engine`` is the kind, ``parameters`` its factors, ``settings`` Flink's configuration, ``sql`` the
statements of a workload, ``master`` the process of the JobManager, ``reported`` what runs."""
