"""Flink's configuration: one file for the JobManager, the TaskManagers and the SQL gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from harness.engines.flink.parameters import FlinkParameters
from harness.engines.settings import java_options

DELAY = "restart-strategy.exponential-delay"
CONF_FILE, LOG_FILE, KEYS_FILE = "config.yaml", "log4j.properties", "internal.p12"
Configuration = Mapping[str, str | int | float | bool]
"""Flink's settings."""
FRAMEWORK_MB, NETWORK_MB, MANAGED_MB, METASPACE_MB, OVERHEAD_MB = 128, 32, 64, 256, 64
"""Memory of a TaskManager beside the heap of its tasks, enough for word count at some thousand
records a second. Flink's own scripts compute it from one total; they are not in the wheel."""
DIRECT_MB = FRAMEWORK_MB + NETWORK_MB
STARTUP = "100 s"
"""Time for a process's RPC layer to start; its own 10 s are too few while a machine with two cores
starts six JVMs. Nothing of it is in a recovery."""
LOG4J = """\
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
logger.flink.name = org.apache.flink
logger.flink.level = INFO
logger.kafka.name = org.apache.flink.kafka.shaded
logger.kafka.level = ERROR
appender.out.name = out
appender.out.type = CONSOLE
appender.out.layout.type = PatternLayout
appender.out.layout.alwaysWriteExceptions = false
appender.out.layout.pattern = {"at_ms":%d{UNIX_MILLIS},"by":"%c{1}","said":"%enc{%m}{JSON}",\
"why":"%enc{%ex{3}}{JSON}"}%n
"""
"""A line of JSON for each message, with the first lines of its exception."""
OPENS = [
    f"--add-{what}={package}=ALL-UNNAMED"
    for what, packages in (
        ("exports", (
            "java.rmi/sun.rmi.registry", "java.security.jgss/sun.security.krb5",
        )),
        ("opens", (
            "java.base/java.lang", "java.base/java.net", "java.base/java.io", "java.base/java.nio",
            "java.base/sun.nio.ch", "java.base/java.lang.reflect", "java.base/java.text",
            "java.base/java.time", "java.base/java.util", "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic", "java.base/java.util.concurrent.locks",
        )),
    )
    for package in packages
]  # fmt: skip
"""The openings that Flink's own configuration file asks Java for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """The JobManager as its clients find it."""

    host: str
    """For the nodes; REST is on this machine's own address alone."""
    rpc_port: int = 0
    """0 before it runs: it chooses its ports itself and says so in its log."""
    rest_port: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The key with which the processes of one pass know each other, as a file of Java's."""

    path: str
    password: str = field(repr=False)


def configuration(
    given: FlinkParameters,
    master: Master,
    *,
    nodes: int,
    checkpoints: str,
    heap_mb: int,
    keys: Keys | None = None,
    host: str | None = None,
) -> Configuration:
    """Return Flink's settings; ``host`` is a TaskManager's own address.

    ``heap_mb``: of a TaskManager. ``keys``: of the connections between all of them; the SQL gateway
    has none."""
    chosen: dict[str, str | int | float | bool | None] = {
        "jobmanager.rpc.address": master.host,
        "jobmanager.rpc.port": master.rpc_port,
        "jobmanager.bind-host": master.host,
        "pekko.startup-timeout": STARTUP,
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": master.rest_port,
        "rest.bind-port": "0",
        "web.submit.enable": False,
        "sql-gateway.endpoint.rest.address": "127.0.0.1",
        "sql-gateway.endpoint.rest.bind-address": "127.0.0.1",
        "sql-gateway.endpoint.rest.bind-port": "0",
        "execution.target": "remote",
        "taskmanager.host": host,
        "taskmanager.bind-host": host,
        "io.tmp.dirs": "./tmp",
        **_memory(heap_mb),
        **_internal(keys),
        "taskmanager.numberOfTaskSlots": given.slots_per_node,
        "taskmanager.load-balance.mode": "SLOTS" if given.spread else None,
        "parallelism.default": given.parallelism or nodes,
        "table.local-time-zone": "UTC",
        "execution.checkpointing.interval": _ms(given.checkpoint_interval_s),
        "execution.checkpointing.dir": checkpoints,
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.unaligned.enabled": given.unaligned,
        "execution.checkpointing.local-backup.enabled": given.local_recovery,
        "execution.state-recovery.from-local": given.local_recovery,
        "state.changelog.enabled": given.changelog,
        "state.changelog.storage": "filesystem" if given.changelog else None,
        "dstl.dfs.base-path": f"{checkpoints}/changelog" if given.changelog else None,
        "heartbeat.interval": _ms(given.heartbeat_interval_s),
        "heartbeat.timeout": _ms(given.heartbeat_timeout_s),
        # Without it Flink takes its defaults, and the two below for nothing.
        "restart-strategy.type": "exponential-delay",
        f"{DELAY}.initial-backoff": _ms(given.restart_delay_s),
        f"{DELAY}.reset-backoff-threshold": _ms(given.restart_delay_again_s),
        **given.settings,
    }
    return {name: value for name, value in chosen.items() if value is not None}


def conf_text(settings: Configuration) -> str:
    """Return ``config.yaml``."""
    return yaml.safe_dump(dict(settings), sort_keys=False)


def java_command(
    java: Path,
    jars: Sequence[Path],
    main: str,
    *arguments: str,
    heap_mb: int,
    direct_mb: int,
    brief: bool,
) -> list[str]:
    """Return the command of one of Flink's processes, in a directory with its two files."""
    return [
        str(java), *java_options(heap_mb, brief=brief), f"-XX:MaxDirectMemorySize={direct_mb}m",
        f"-XX:MaxMetaspaceSize={METASPACE_MB}m", f"-Dlog4j2.configurationFile={LOG_FILE}",
        "-Djava.io.tmpdir=.", *OPENS, "-cp", ":".join(map(str, jars)), main, *arguments,
    ]  # fmt: skip


def _internal(keys: Keys | None) -> dict[str, bool | str]:
    """Return the encryption of calls and code between Flink's processes, both sides with a key.

    Flink has no other way to refuse another user of the machine. Records between tasks are not
    encrypted, as in the other engines on such a cluster."""
    if keys is None:
        return {}
    stores = {f"{kind}store": keys.path for kind in ("key", "trust")}
    passwords = dict.fromkeys(
        ("keystore-password", "key-password", "truststore-password"), keys.password
    )
    own = {f"security.ssl.internal.{name}": value for name, value in (stores | passwords).items()}
    return {"security.ssl.internal.enabled": True, "taskmanager.data.ssl.enabled": False, **own}


def _memory(heap_mb: int) -> dict[str, str | float]:
    """Return the parts of a TaskManager's memory, each set, as its own scripts would."""
    return {
        "taskmanager.cpu.cores": 1.0,
        "taskmanager.memory.framework.heap.size": f"{FRAMEWORK_MB}m",
        "taskmanager.memory.task.heap.size": f"{heap_mb - FRAMEWORK_MB}m",
        "taskmanager.memory.framework.off-heap.size": f"{FRAMEWORK_MB}m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.network.min": f"{NETWORK_MB}m",
        "taskmanager.memory.network.max": f"{NETWORK_MB}m",
        "taskmanager.memory.managed.size": f"{MANAGED_MB}m",
        "taskmanager.memory.jvm-metaspace.size": f"{METASPACE_MB}m",
        "taskmanager.memory.jvm-overhead.min": f"{OVERHEAD_MB}m",
        "taskmanager.memory.jvm-overhead.max": f"{OVERHEAD_MB}m",
    }


def _ms(seconds: float | None) -> str | None:
    return None if seconds is None else f"{round(seconds * 1000)} ms"
