"""The stock engine: a workload as a Structured Streaming query, nothing patched.

Each application is a driver process of its own (`driver`), steered over its standard input and
heard through its standard output (`application`), because a driver's JVM cannot be shared
between applications and must be killable alone."""
