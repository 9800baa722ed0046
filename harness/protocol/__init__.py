"""The fault-tolerance protocols as pure state machines: no I/O, no clock, no randomness.

========================  =====================================================================
module                    contents
========================  =====================================================================
`wiring`, `scheme`        who sends to whom; which mechanisms are on. Both are plain values.
`inputs`, `effects`       every input of a machine, and every request that it can make
`schemes`, `output`       the schemes by name; the meaning of an output partition's records
`task.machine`            one copy of a task, primary or replica, and a list of its parts
`node`                    the copies of one node, and the heartbeat that drives repairs
`coordinator.machine`     suspicion, takeover, restoration, closing, and a list of its parts
`operators`               the code that a host runs: a pure function from state and batch to outputs
`story`, `planned`        the log in every violation; wirings from the planners' topologies
========================  =====================================================================

A host calls ``handle(input, now=...)`` on a `NodeMachine` or a `CoordinatorMachine`, carries out
the effects and answers. It may lose, repeat, delay and reorder messages, and drop any effect; it
must fence terms at the store and at the output partition, keep what they accepted, and run
operators that are functions of their arguments. ``now`` is in integer microseconds.

These failures cannot be survived; ``tests/simulator/test_limits.py`` has schedules for them:

* a store that loses checkpoints it has confirmed: upstream buffers are trimmed behind them (a
  replica of every task helps, as long as one copy of each lives);
* fewer slots than tasks: what has no slot waits until a node comes back, and with it everything
  downstream (stable output; tentative output goes on);
* the store or the coordinator away: running tasks go on, but nothing is restored until they are
  back, because decisions are stored before they are acted upon (a replica takes over without the
  store: its term was stored with its place);
* a log that loses input, or output that it has confirmed;
* a store or an output partition that does not fence terms: two primaries could write;
* an operator that is not a function of its arguments, or whose state depends on more batches than
  its ``memory`` (source replay and undo/redo rebuild from that many);
* a failure that lasts for more batches than the scheme's window: all buffers are full then, so
  the sources are read no further, and tentative output stops, too, until it has healed;
* a node's machine that is started again under a boot number of before: old copies seem to be
  running still (a node that only loses its copies reports that: `inputs.CopiesForgotten`);
* a change of plan that the coordinator has not stored before it crashes: it must be requested
  again;
* wrong data: no message is checked for anything but where it comes from."""
