"""The processes of the task engine whole, in virtual time, over models of what they talk to.

The code of nodes and of the coordinator is the live one. Its four ports have models here:

=============  =================================================================================
module         port
=============  =================================================================================
`loop`         the clock: an event loop whose time jumps to the next timer; processes in it
`streams`      connections, as the event loop opens them: cut, reset, slow
`broker`       the log: Kafka's clients, and the threads that block in them
`server`       the store: Redis
=============  =================================================================================

`program` is what tasks compute, `cluster` starts and breaks processes, `faults` draws what breaks,
`run` is one run from a seed, under the checkers of `harness.simulator.checkers`."""
