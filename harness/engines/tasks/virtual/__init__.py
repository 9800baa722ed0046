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

`program` is what tasks compute, `cluster` starts and watches processes, `draw` draws a run and its
faults (`harness.simulator.faults`), `breaking` breaks things, `run` is one run from a seed, under
the checkers of `harness.simulator.checkers`; `harness.simulator.campaign` makes many of them.

Under all of these faults no output is wrong, repeated or left out, and no computation starts from
wrong input or state. The output is complete after their end, unless the table says otherwise:

====================  =============================================================================
fault                 what the engine promises
====================  =============================================================================
a cut, both ways or   A lost message is asked for again. The kernel's acknowledgements show a cut
one                   way to either end, so a node that is heard and hears nothing is given up.
a request whose       It is repeated, with the same effect as once.
answer is lost
wrong bits on a wire  Each frame between nodes, and to the coordinator, has checksums. A wrong one
                      ends its connection, which is made again. A wrong proof between nodes ends
                      the run only if no attempt succeeds for `unreached.LASTING_US`.
wrong bits in Redis   What fails its check is loaded again, up to `store.READ_AGAIN` times. Then a
                      checkpoint or registry ends the run with a message, and an end of an output
                      partition counts as none: the run ends only if retention has deleted the
                      beginning. The numbers that are Redis' own (terms, boots) have no checksum.
wrong bits in Kafka   Records are read with ``check.crcs``, and read again from the last good one
                      on; after some attempts the run ends with a message.
a failover of Redis   With replicas (`RedisEndpoint.replicas`) what was confirmed is kept: each
                      change waits for them. Without, the last moments may be gone: then numbers of
                      copies may be given twice, and the run may stand still.
a leader of Kafka's   Output is appended with ``acks=1``, and trusted once it has been read back:
that lacks the end    nobody can read what followers lack. What was lost is appended again after
                      `copies.READ_BACK_WITHIN_US`. A broker that loses what could be read
                      (``unclean.leader.election.enable``, or one copy and no power) loses output.
a slow disk           A record that was given up may come yet: every reader passes over the second.
retention of input    The run ends with a message if records that are due again may be gone.
retention of output   Readers continue from a stored end.
a wall clock's step   Nothing: times are monotonic, batches are cut by the records' own times.
an unexpected error   The run ends with it. Whatever ends the run is told until the pass is over,
                      as the coordinator may be away.
====================  =============================================================================
"""
