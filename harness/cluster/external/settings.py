"""The description of a cluster that exists already: a YAML file, checked key by key.

It never holds credentials: ``{env: NAME}`` takes a value from the environment and ``{file: PATH}``
from a file, so that the description itself can be shared and kept.
``docker/external-example.yaml`` shows every key."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from string import Formatter
from typing import Any
from urllib.parse import unquote, urlsplit

from harness.cluster.base import Action, Node
from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint, Tls
from harness.errors import UsageError
from harness.text import did_you_mean, read_given
from harness.yaml_files import parse_yaml

_RACK = re.compile(r"r[1-9][0-9]*")
_TOP = ("kafka", "redis", "spark", "checkpoints", "nodes", "commands")
_KAFKA = (
    "bootstrap", "executors_bootstrap", "mechanism", "username", "password", "tls", "replication",
    "librdkafka", "java",
)  # fmt: skip
_REDIS = ("url", "executors_url", "username", "password", "tls", "replicas")
_SPARK = ("master", "secret", "driver_host", "python", "code", "conf", "rack_conf")
_CHECKPOINTS = ("uri", "remove")
_EXTRA_COMMANDS = ("up", "clock", "usage", "kill_process", "up_process")
_OF_PROCESSES = ("kill_process", "up_process")
"""Commands that have a place {pid}."""
_DEFAULT_TIMEOUT_S = 60.0
_LIKE = "name a file like docker/external-example.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command with places for each node's own values."""

    words: tuple[str, ...]

    def filled(self, values: Mapping[str, str]) -> list[str]:
        """Return the command for a node. No shell reads it, so a value cannot become a command."""
        return [word.format_map(values) for word in self.words]

    @property
    def places(self) -> set[str]:
        """The names in braces that a run fills in."""
        return {name for word in self.words for _, name, _, _ in Formatter().parse(word) if name}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The way of applications to the master, and of code to executors."""

    master: str
    secret: str | None = field(repr=False)
    driver_host: str
    python: str
    """The Python program of the executors."""
    code: str
    """"archive": this checkout's code goes with the application; "image": executors have it."""
    conf: Mapping[str, str]
    rack_conf: Mapping[str, Mapping[str, str]]
    """Settings that keep an application on a rack, by rack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalSettings:
    """A whole description."""

    path: Path
    kafka: KafkaEndpoint
    redis: RedisEndpoint
    spark: SparkSettings
    checkpoints: str
    """A URI below which each run has a directory of its own."""
    remove_checkpoints: Command | None
    """Needed for storage outside this machine's directories; ``{uri}`` is the run's."""
    nodes: tuple[Node, ...]
    variables: Mapping[str, Mapping[str, str]]
    """The values for the places of commands, by node."""
    actions: Mapping[Action, Command]
    up: Command
    clock: Command | None
    usage: Command | None
    timeout_s: float
    kill_process: Command | None = None
    """For several nodes to a worker: SIGKILL to the process ``{pid}`` of a worker."""
    up_process: Command | None = None
    """Ends with 0 if that process lives; given together with `kill_process`."""

    @property
    def name(self) -> str:
        """The name in records, which changes with the description."""
        return name_of(self.path)


def name_of(path: Path) -> str:
    """Return the name in records of the cluster of a file. Raises `UsageError` without one."""
    text = read_given(path, "--cluster: ", _LIKE)
    return f"external-{path.stem}-{sha256(text.encode()).hexdigest()[:8]}"


def read_settings(path: Path) -> ExternalSettings:
    """Read and check a description. Raises `UsageError` with file, key and remedy."""
    remedy = "correct that line; docker/external-example.yaml shows every key"
    text = read_given(path, "--cluster: ", _LIKE)
    document = parse_yaml(text, name=f"--cluster: {path}", remedy=remedy)
    return _Reader(path).settings(document)


class _Reader:
    """A reader of one file, whose messages name the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def settings(self, document: Any) -> ExternalSettings:
        top = self._table(document, "the file", _TOP, required=_TOP)
        nodes, variables = self._nodes(top["nodes"])
        commands = self._commands(top["commands"], variables)
        checkpoints = top["checkpoints"]
        if not isinstance(checkpoints, str):
            table = self._table(checkpoints, "checkpoints", _CHECKPOINTS, required=("uri",))
            remove = self._command(table, "remove", {"uri": ""}) if "remove" in table else None
            checkpoints = self._text(table["uri"], "checkpoints.uri")
        else:
            remove = None
        if "://" not in checkpoints:
            raise self._wrong("checkpoints", f"{checkpoints!r} is no URI", "begin with file://")
        if not checkpoints.startswith("file://") and remove is None:
            raise self._wrong(
                "checkpoints",
                f"nothing says how to remove what a run leaves in {checkpoints}",
                "give `checkpoints: {uri: ..., remove: COMMAND with {uri}}`",
            )
        return ExternalSettings(
            path=self._path,
            kafka=self._kafka(top["kafka"]),
            redis=self._redis(top["redis"]),
            spark=self._spark(top["spark"], {node.rack for node in nodes}),
            checkpoints=checkpoints.rstrip("/"),
            remove_checkpoints=remove,
            nodes=nodes,
            variables=variables,
            **commands,
        )

    def _kafka(self, value: Any) -> KafkaEndpoint:
        table = self._table(value, "kafka", _KAFKA, required=("bootstrap",))
        return KafkaEndpoint(
            bootstrap=self._text(table["bootstrap"], "kafka.bootstrap"),
            executors_bootstrap=self._optional(table, "kafka", "executors_bootstrap"),
            mechanism=self._optional(table, "kafka", "mechanism"),
            username=self._optional(table, "kafka", "username"),
            password=self._secret(table, "kafka", "password"),
            tls=self._tls(table, "kafka"),
            replication=int(self._number(table, "kafka", "replication", 1)),
            librdkafka=self._values(table.get("librdkafka", {}), "kafka.librdkafka"),
            java=self._values(table.get("java", {}), "kafka.java"),
        )

    def _redis(self, value: Any) -> RedisEndpoint:
        table = self._table(value, "redis", _REDIS, required=("url",))
        host, port, database, secure = self._redis_url(table, "url")
        inside = self._redis_url(table, "executors_url") if "executors_url" in table else None
        return RedisEndpoint(
            host=host,
            port=port,
            database=database,
            executors_host=inside[0] if inside else None,
            executors_port=inside[1] if inside else None,
            username=self._optional(table, "redis", "username"),
            password=self._secret(table, "redis", "password"),
            tls=self._tls(table, "redis") or (Tls() if secure else None),
            replicas=int(self._number(table, "redis", "replicas", 1)) if "replicas" in table else 0,
        )

    def _redis_url(self, table: Mapping[str, Any], key: str) -> tuple[str, int, int, bool]:
        url = urlsplit(self._text(table[key], f"redis.{key}"))
        database = unquote(url.path).strip("/") or "0"
        try:
            port = url.port or 6379
        except ValueError:  # not a number, or too large
            port = 0
        known = url.scheme in ("redis", "rediss") and url.hostname
        if not known or not port or not database.isdecimal():
            raise self._wrong(f"redis.{key}", "is no Redis URL", "write redis://host:port/0")
        assert url.hostname is not None
        if url.password:
            raise self._wrong(
                f"redis.{key}",
                "holds a password",
                "leave it out, and give `password: {env: NAME}` or `{file: PATH}`",
            )
        return url.hostname, port, int(database), url.scheme == "rediss"

    def _spark(self, value: Any, racks: set[str]) -> SparkSettings:
        table = self._table(value, "spark", _SPARK, required=("master", "driver_host", "python"))
        code = table.get("code", "archive")
        if code not in ("archive", "image"):
            raise self._wrong("spark.code", f"is {code!r}", "use archive or image")
        by_rack = self._table(table.get("rack_conf", {}), "spark.rack_conf", None)
        if unknown := sorted(set(by_rack) - racks):
            raise self._wrong(
                "spark.rack_conf", f"names {unknown[0]!r}", did_you_mean(unknown[0], racks)
            )
        return SparkSettings(
            master=self._text(table["master"], "spark.master"),
            secret=self._secret(table, "spark", "secret"),
            driver_host=self._text(table["driver_host"], "spark.driver_host"),
            python=self._text(table["python"], "spark.python"),
            code=code,
            conf=self._values(table.get("conf", {}), "spark.conf"),
            rack_conf={
                rack: self._values(conf, f"spark.rack_conf.{rack}")
                for rack, conf in by_rack.items()
            },
        )

    def _nodes(self, value: Any) -> tuple[tuple[Node, ...], dict[str, dict[str, str]]]:
        """Name the nodes by rack and place, as in every other cluster.

        The other values of a node fill the places of its commands."""
        if not isinstance(value, list) or not value:
            raise self._wrong("nodes", "is no list of nodes", "give at least one {rack, host}")
        nodes: list[Node] = []
        variables: dict[str, dict[str, str]] = {}
        for number, item in enumerate(value, start=1):
            where = f"nodes[{number}]"
            table = self._table(item, where, None, required=("rack", "host"))
            rack = str(table["rack"])
            if not _RACK.fullmatch(rack):
                raise self._wrong(f"{where}.rack", f"is {rack!r}", "call the racks r1, r2, ...")
            place = sum(node.rack == rack for node in nodes) + 1
            node = Node(
                name=f"{rack}n{place}", rack=rack, worker=f"{rack}w{place}", host=str(table["host"])
            )
            nodes.append(node)
            given = {key: self._text(item, f"{where}.{key}") for key, item in table.items()}
            variables[node.name] = {**given, "node": node.name}
        nodes.sort(key=lambda node: (int(node.rack[1:]), int(node.name.split("n")[1])))
        if (racks := {node.rack for node in nodes}) != {f"r{n + 1}" for n in range(len(racks))}:
            raise self._wrong("nodes", f"has the racks {sorted(racks)}", "call them r1, r2, ...")
        return tuple(nodes), variables

    def _commands(self, value: Any, variables: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
        known = [*(action.value for action in Action), *_EXTRA_COMMANDS, "timeout_s"]
        table = self._table(value, "commands", known, required=("up", "kill", "restart"))
        shared = set.intersection(*map(set, variables.values()))
        places = dict.fromkeys(shared, "")
        found = {
            name: self._command(
                table, name, {**places, "pid": ""} if name in _OF_PROCESSES else places
            )
            for name in table
            if name != "timeout_s"
        }
        for one, other in (("pause", "resume"), ("cut", "heal"), _OF_PROCESSES):
            if (one in found) != (other in found):
                raise self._wrong(
                    "commands", f"has only one of {one} and {other}", "give both or neither"
                )
        return {
            "actions": {a: found[a.value] for a in Action if a.value in found},
            "up": found["up"],
            "clock": found.get("clock"),
            "usage": found.get("usage"),
            "kill_process": found.get("kill_process"),
            "up_process": found.get("up_process"),
            "timeout_s": self._number(table, "commands", "timeout_s", _DEFAULT_TIMEOUT_S),
        }

    def _command(self, table: Mapping[str, Any], name: str, values: Mapping[str, str]) -> Command:
        try:
            words = tuple(shlex.split(self._text(table[name], f"commands.{name}")))
            command = Command(words=words)
            unknown = sorted(command.places - set(values))
        except ValueError as error:
            raise self._wrong(f"commands.{name}", f"cannot be read: {error}", "mend it") from error
        if unknown:
            raise self._wrong(
                f"commands.{name}",
                f"has a place {{{unknown[0]}}} that not every node fills",
                f"use {', '.join(f'{{{place}}}' for place in sorted(values))}, or give every node "
                f"a {unknown[0]}; a brace that is meant is written twice",
            )
        if not words:
            raise self._wrong(f"commands.{name}", "is empty", "give a program and its arguments")
        return command

    def _tls(self, table: Mapping[str, Any], where: str) -> Tls | None:
        if "tls" not in table or table["tls"] is False:
            return None
        if table["tls"] is True:
            return Tls()
        inner = self._table(table["tls"], f"{where}.tls", ("ca", "certificate", "key"))
        names = ("ca", "certificate", "key")
        texts = {name: self._secret(inner, f"{where}.tls", name) for name in names}
        return Tls(**texts)

    def _secret(self, table: Mapping[str, Any], where: str, key: str) -> str | None:
        """Read a value from the environment or a file; never from the description itself."""
        if key not in table:
            return None
        value, name = table[key], f"{where}.{key}"
        if not isinstance(value, dict) or len(value) != 1 or not set(value) <= {"env", "file"}:
            raise self._wrong(
                name, "is written into the file", "give {env: NAME} or {file: PATH} instead"
            )
        return self._taken(value, name)

    def _optional(self, table: Mapping[str, Any], where: str, key: str) -> str | None:
        if key not in table:
            return None
        value = table[key]
        return self._taken(value, f"{where}.{key}") if isinstance(value, dict) else str(value)

    def _taken(self, source: Mapping[str, Any], name: str) -> str:
        if "env" in source:
            value = os.environ.get(str(source["env"]))
            if value is None:
                raise self._wrong(
                    name, f"is to come from ${source['env']}, which is not set", "set it"
                )
            return value
        path = Path(str(source.get("file", "")))
        path = path if path.is_absolute() else self._path.parent / path
        try:
            return path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise self._wrong(name, f"is to come from {path}: {error}", "mend the path") from error

    def _values(self, value: Any, where: str) -> dict[str, str]:
        table = self._table(value, where, None)
        return {
            key: self._taken(item, f"{where}.{key}")
            if isinstance(item, dict)
            else self._text(item, f"{where}.{key}")
            for key, item in table.items()
        }

    def _table(
        self, value: Any, where: str, known: Sequence[str] | None, *, required: Sequence[str] = ()
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(where, "holds no keys and values", "see docker/external-example.yaml")
        for key in value:
            if known is not None and key not in known:
                raise self._wrong(
                    where, f"has an unknown key {key!r}", did_you_mean(str(key), known)
                )
        if missing := [key for key in required if key not in value]:
            raise self._wrong(where, f"lacks {', '.join(missing)}", "add it")
        return {str(key): item for key, item in value.items()}

    def _text(self, value: Any, where: str) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise self._wrong(where, f"is {value!r}", "give a text")
        return re.sub(r"\s*\n\s*", " ", str(value)).strip()

    def _number(self, table: Mapping[str, Any], where: str, key: str, otherwise: float) -> float:
        """Read a number above 0."""
        given = table.get(key, otherwise)
        try:
            found = float(given)
        except (TypeError, ValueError):
            found = 0.0
        if not 0 < found < float("inf"):
            raise self._wrong(f"{where}.{key}", f"is {given!r}", "give a number above 0")
        return found

    def _wrong(self, where: str, what: str, remedy: str) -> UsageError:
        return UsageError(f"--cluster: {self._path}: {where} {what}", remedy=remedy)
