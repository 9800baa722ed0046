"""What was found out about verdicts of this group: see `harness.running.discovery.reasons`."""

from __future__ import annotations

from collections.abc import Mapping

_TOP_100 = (
    "A top 100 is right as soon as the order of its pages is. The World Cup's servers serve the "
    "same pages, so the requests of a few servers are a sample from which nearly the same pages "
    "come out first: with a fifth of the requests the answer is almost whole. OF and IC count "
    "requests, so the accuracy is far above them."
)
_NO_COMMON_RATE = (
    "Quick makes one run of the stock engine below saturation under this workload, and its "
    "latency rose by half a second while it ran: more than the 0.3 s up to which a run "
    "counts as keeping up. So there is no rate at which both do. Whether the machine was "
    "busy then or the rate too high is not known; the paper profile has more rates."
)
_RESTORED = (
    "Each simulated node has its own cores. Here two cores have to take back the memory of "
    "15 killed processes, 10 to 30 ms of a core each, while 15 tasks take over, or find, "
    "read and open their checkpoints. That is 0.1 to 0.3 s that the simulator does not "
    "have, and at a tenth of the papers' times they weigh ten times as much."
)

REASONS: Mapping[str, Mapping[str, str]] = {
    "live/checkpoint-cost": {
        "A checkpoint every second is prohibitively expensive": (
            "It costs nearly as much as normal computation again, and prohibitive is taken as at "
            "least as much. Normal computation is here all that a node's process does, messages and"
            " heartbeats among it; beside the operators alone the same checkpoints cost more than "
            "the computation (ppa/checkpoint-cost, this machine). The state of a tenth of the "
            "papers' window is small, and quick has the lower rate alone."
        ),
    },
    "live/engines": {
        "Top 100: at a median latency of 1 s or less a core of the task engine does at least "
        "ten times the records of the stock engine's best setting at a rate that it keeps up "
        "with, whatever latency that has.": _NO_COMMON_RATE,
        "Top 100: at a rate that both keep up with, the task engine's median latency is at "
        "most a tenth of that of the stock engine's fastest setting.": _NO_COMMON_RATE,
    },
    "live/partial-replication": {
        "PPA-0.5 takes longer than PPA-1.0 and less long than PPA-0": (
            "Both are restored from checkpoints at once, each task on a standby node of its own, so"
            " the last one is back hardly sooner if half of the tasks need no restoring: the "
            "simulator says 3 to 5 % sooner with a checkpoint every 15 s and 16 to 18 % with one "
            "every 5 s. One live pass differs from the next by more than that. Where the order is "
            "reversed the restored tasks took as long as from a checkpoint of one interval before; "
            "the records do not say which one was read."
        ),
        "The active half of PPA-0.5 is back much earlier than all of its tasks": (
            "It is with a checkpoint every 15 s. With one every 5 s, half a second here, all tasks "
            "are back so soon that something else counts: the two cores have to take back the "
            "memory of 15 killed processes, 10 to 30 ms of a core each, before replicas get their "
            "turn, so the active half needs a tenth of a second instead of the simulated hundredth."
        ),
        "Tentative output begins up to ten times earlier than all tasks are back": (
            "All times are a tenth of the papers' here, but what tentative output waits for is not:"
            " that a batch of 0.1 s ends, that the coordinator closes it for the lost tasks, and "
            "that it passes through all operators of 34 processes on two cores."
        ),
        "Simulated and measured latency are near each other": _RESTORED,
    },
    "live/query-accuracy": {
        "On Q1 both OF and IC predict the accuracy well": (
            f"{_TOP_100} Where every page is on one server only, the distance is smaller "
            "(ppa/query-accuracy)."
        ),
    },
    "live/utilization": {
        "The model predicts the measured utilization: for these very kills": (
            "At 30 minutes more was measured than the model says. It counts lost work as taking as "
            "long as the first time. Here it is done again faster: its input is there already, and "
            "the windows of the first seconds, to which such a short run goes back, are not full. "
            "Until the first kill the tasks had worked for 2.4 s; 1.6 s after their node was back "
            "they were there again. At T* the model is nearer, and says too much: it knows R, the "
            "0.3 s until a node is back, but not that its tasks then read their checkpoints and "
            "that a batch has to come through all operators again."
        ),
    },
    "live/recovery-accuracy": {
        "The accuracy of Q1 is close to its OF for both orders": (_TOP_100),
    },
    "live/recovery": {
        "Active replication recovers much faster than Checkpoint and Storm (live at declared "
        "speed)": (
            "It does after a single failure, and against Storm and checkpoints every 30 s. When 15 "
            "processes die at once, the two cores have to take back their memory, 10 to 30 ms of a "
            "core each, before any replica gets its turn: active replication needs a tenth of a "
            "second where the simulator says a hundredth. A checkpoint every 5 s, half a second "
            "here, leaves so little to process again that this is no fifth of it."
        ),
        "Active replication recovers much faster than Checkpoint and Storm (live)": (
            "It does after a single failure, and against Storm and checkpoints every 30 s. When 15 "
            "processes die at once, the two cores have to take back their memory, 10 to 30 ms of a "
            "core each, before any replica gets its turn: active replication needs a tenth of a "
            "second where the simulator says a hundredth. A checkpoint every 5 s, half a second "
            "here, leaves so little to process again that this is no fifth of it."
        ),
        "Checkpoint and Storm grow in proportion to the rate": (
            "Storm does. With a checkpoint every 5 s, half a second here, there is so little input "
            "to process again that finding and opening 15 checkpoints at once on two cores is most "
            "of the latency, and that does not depend on the rate. Restored from a checkpoint of "
            "every 30 s, the latency is just below the accepted growth for the same reason. In the "
            "simulator, where each node has its own cores, all of them grow."
        ),
        "With 10 s windows Storm is faster than Checkpoint with a 30 s interval when all nodes"
        " fail": (
            "Storm's replay is exact here: the last of four operators needs four windows of the "
            "sources, and each operator waits for what the one above it computes again. Checkpoints"
            " are read by all of them at once, and are at most 30 s old. The simulator says the "
            "same (ppa/recovery-correlated, where shorter windows make Storm the faster one)."
        ),
        "Simulated and measured latency are near each other": _RESTORED,
    },
}
