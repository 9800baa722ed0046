"""The task engine: the protocol's machines, live, in long-lived tasks on Spark executors.

======================  =======================================================================
module                  what it does
======================  =======================================================================
`engine`                the engine behind the contract of all engines
`choices`               what the parameters of a setup mean
`fleet`                 its processes as the harness sees them
`coordinator`           the process of the coordinator
`driver`, `daemon`      the process that places nodes on executors, and what forks them there
`node`, `hosted`        the process of a node, and one pass on it
`copies`                what the copies on a node read
`job`                   what all processes of a pass are told
`control`               one authenticated connection per node to the coordinator
`lifeline`              a second one, which ends as soon as the node is killed
`store`                 checkpoints and the registry in Redis, fenced by term
`exchange`              batches between tasks and output through Kafka
`sources`               a source's partition, cut into batches
`pacing`                a node's declared speed and a link's delay, by timers
`reading`               what the out topic held, and what it should have held
`contenders`            the papers' schemes with the plans of their own planners
`adapting`              a plan that follows the rates
`alternating`           a plan that changes to and fro, to see what a change takes
`noticed`               what was noticed in a pass, as events of the contract
`trial`                 a pass that is disturbed on purpose
`draw`, `endure`        what is done to it, drawn from a seed; and one pass after the other
======================  =======================================================================

A process that the harness kills is dead at once: the kernel closes its connection to the
coordinator, which restores its tasks elsewhere, from replicas or from checkpoints. Nothing of
what a run rests on lies in a node, the coordinator or the driver: it lies in Kafka and Redis.
"""
