"""Kafka Streams as an engine: jars on demand, a topology in Java, and its events.

``java`` has the source of the class in ``classes`` (a test compiles and compares it);
`jars.lock.json` pins the jars, which are fetched when a run first asks for this engine."""
