"""The task engine: the protocol's machines, live, in long-lived tasks on Spark executors.

======================  =======================================================================
module                  content
======================  =======================================================================
`engine`                the engine behind the contract of all engines
`parameters`, `choices` the parameters of a setup, and their fit to a cluster
`fleet`                 its processes as the harness sees them
`coordinator`           the process of the coordinator
`driver`, `daemon`      the process that places nodes on executors, and what forks them there
`node`, `hosted`        the process of a node, and one pass on it
`copies`                the readers of the copies on a node, and requests to output partitions
`operations`            the one operation under way for each copy and kind
`messages`, `routes`    batches between tasks, and the nodes that host the copies of each
`direct`, `wire`        the connections between nodes; one end of one, and its frames
`handshake`             the proof that both ends of a connection belong to the run
`ports`                 what a process takes from outside: log, store, lifeline, clock
`virtual`               the same processes in virtual time, over models of what they talk to
`job`                   the program, scheme and places of a pass, for all processes
`control`, `reports`    one authenticated connection per node to the coordinator; its frames
`directory`             the coordinator's news for nodes about one another
`lifeline`              a second one, which ends as soon as the node is killed
`store`                 checkpoints and the registry in Redis, fenced by term
`exchange`              reading sources, and output, through Kafka
`sources`               a source's partition, cut into batches
`pacing`                a node's declared speed and a link's delay, by timers
`records`, `reading`    output as ordinary records; the content of the out topic, and what is due
`systems`               the schemes with the plans of their own planners
`adapting`              plans that follow the rates, or change to and fro
`events`                the observations in a pass, as events of the contract
======================  =======================================================================

A process that the harness kills is dead at once: the kernel closes its connection to the
coordinator, which restores its tasks elsewhere, from replicas or from checkpoints. A run rests
on Kafka and Redis alone, on nothing in a node, the coordinator or the driver."""
