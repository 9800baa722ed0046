"""The description of a cluster that exists already, a YAML file.

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
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Meta, structs

from harness.cluster.base import Action, Node
from harness.cluster.endpoints import KafkaEndpoint, RedisEndpoint, Tls
from harness.errors import UsageError
from harness.text import did_you_mean, read_given
from harness.yaml_files import Entry, Mistake, Word, decode, parse_yaml

_OF_PROCESSES = ("kill_process", "up_process")
"""Commands that have a place {pid}."""
_EXAMPLE = "see docker/external-example.yaml, which shows every key"


class Given(str):
    """A text, or one from the environment or from a file."""


class Secret(Given):
    """A text from the environment or from a file, never from the description itself."""


class _Tls(Entry):
    ca: Secret | None = None
    certificate: Secret | None = None
    key: Secret | None = None


class _Kafka(Entry):
    bootstrap: Word
    executors_bootstrap: Given | None = None
    mechanism: Given | None = None
    username: Given | None = None
    password: Secret | None = None
    tls: bool | _Tls = False
    replication: Annotated[int, Meta(ge=1)] = 1
    librdkafka: dict[str, Given] = msgspec.field(default_factory=dict)
    java: dict[str, Given] = msgspec.field(default_factory=dict)


class _Redis(Entry):
    url: Word
    executors_url: Word | None = None
    username: Given | None = None
    password: Secret | None = None
    tls: bool | _Tls = False
    replicas: Annotated[int, Meta(ge=1)] | None = None


class SparkSettings(Entry):
    """The way of applications to the master, and of code to executors."""

    master: Word
    driver_host: Word
    python: Word
    """The Python program of the executors."""
    secret: Secret | None = None
    code: Literal["archive", "image"] = "archive"
    """"archive": this checkout's code goes with the application; "image": executors have it."""
    conf: dict[str, Given] = msgspec.field(default_factory=dict)
    rack_conf: dict[str, dict[str, Given]] = msgspec.field(default_factory=dict)
    """Settings that keep an application on a rack, by rack."""


class _Checkpoints(Entry):
    uri: Word
    remove: Word | None = None


class _Commands(Entry):
    up: Given
    """Ends with 0 if the node is up."""
    kill: Given
    restart: Given
    pause: Given | None = None
    resume: Given | None = None
    cut: Given | None = None
    heal: Given | None = None
    clock: Given | None = None
    usage: Given | None = None
    kill_process: Given | None = None
    """For several nodes to a worker: SIGKILL to the process ``{pid}`` of a worker."""
    up_process: Given | None = None
    """Ends with 0 if that process lives; given together with `kill_process`."""
    timeout_s: Annotated[float, Meta(gt=0)] = 60.0


class _Document(Entry):
    kafka: _Kafka
    redis: _Redis
    spark: SparkSettings
    checkpoints: str | _Checkpoints
    nodes: Annotated[list[dict[str, Word]], Meta(min_length=1)]
    commands: _Commands


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
class ExternalSettings:
    """A whole description."""

    path: Path
    kafka: KafkaEndpoint
    redis: RedisEndpoint
    spark: SparkSettings = field(repr=False)
    checkpoints: str
    """A URI below which each run has a directory of its own."""
    remove_checkpoints: Command | None
    """Needed for storage outside this machine's directories; ``{uri}`` is the run's."""
    nodes: tuple[Node, ...]
    variables: Mapping[str, Mapping[str, str]]
    """The values for the places of commands, by node."""
    commands: Mapping[str, Command]
    """Those that were given, by their keys in the file."""
    timeout_s: float

    @property
    def actions(self) -> frozenset[Action]:
        """The actions that there are commands for."""
        return frozenset(action for action in Action if action in self.commands)

    @property
    def name(self) -> str:
        """The name in records, which changes with the description."""
        return name_of(self.path)


def name_of(path: Path) -> str:
    """Return the name in records of the cluster of a file. Raises `UsageError` without one."""
    text = read_given(path, "--cluster: ", _EXAMPLE)
    return f"external-{path.stem}-{sha256(text.encode()).hexdigest()[:8]}"


def read_settings(path: Path) -> ExternalSettings:
    """Read and check a description. Raises `UsageError` with file, key and remedy."""
    name = f"--cluster: {path}"
    document = parse_yaml(read_given(path, "--cluster: ", _EXAMPLE), name=name, remedy=_EXAMPLE)

    def read(kind: type[str], value: Any) -> str:
        if isinstance(value, dict) and kind is not Word:
            return kind(_taken(value, path.parent))
        if kind is Secret:
            raise Mistake("is written into the file", "give {env: NAME} or {file: PATH} instead")
        text = str(value).lower() if isinstance(value, bool) else Word.read(value or " ")
        return kind(re.sub(r"\s*\n\s*", " ", text))

    given = decode(_Document, document, name=name, remedy=_EXAMPLE, hook=read)
    try:
        return _settings(path, given)
    except Mistake as mistake:
        raise UsageError(f"{name}: {mistake}", remedy=mistake.remedy) from None


def _taken(source: Mapping[str, Any], directory: Path) -> str:
    """Return the text that {env: NAME} or {file: PATH} leads to."""
    if set(source) == {"env"}:
        value = os.environ.get(str(source["env"]))
        if value is None:
            raise Mistake(f"is to come from ${source['env']}, which is not set", "set it")
        return value
    if set(source) != {"file"}:
        raise Mistake(f"is {dict(source)!r}", "give {env: NAME} or {file: PATH} instead")
    path = directory / str(source["file"])
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Mistake(f"is to come from {path}: {error}", "mend the path") from error


def _settings(path: Path, given: _Document) -> ExternalSettings:
    nodes, variables = _nodes(given.nodes)
    racks = {node.rack for node in nodes}
    if unknown := sorted(set(given.spark.rack_conf) - racks):
        raise Mistake(f"spark.rack_conf names {unknown[0]!r}", did_you_mean(unknown[0], racks))
    if given.spark.master.startswith("spark://") and given.spark.secret is None:
        raise Mistake(
            "spark has no secret: without one, everybody who reaches its ports can run code there",
            "start master and workers with spark.authenticate and a secret, and give "
            "`secret: {env: NAME}` or `{file: PATH}`",
        )
    uri, remove = given.checkpoints, None
    if isinstance(uri, _Checkpoints):
        if uri.remove is not None:
            remove = _command("checkpoints.remove", uri.remove, {"uri"})
        uri = uri.uri
    if "://" not in uri:
        raise Mistake(f"checkpoints {uri!r} is no URI", "begin with file://")
    if not uri.startswith("file://") and remove is None:
        raise Mistake(
            f"nothing says how to remove what a run leaves in the checkpoints at {uri}",
            "give `checkpoints: {uri: ..., remove: COMMAND with {uri}}`",
        )
    kafka = _plain(structs.asdict(given.kafka))
    return ExternalSettings(
        path=path,
        kafka=KafkaEndpoint(**kafka | {"tls": _tls(given.kafka.tls)}),
        redis=_redis(given.redis),
        spark=given.spark,
        checkpoints=uri.rstrip("/"),
        remove_checkpoints=remove,
        nodes=nodes,
        variables=variables,
        commands=_commands(given.commands, set.intersection(*map(set, variables.values()))),
        timeout_s=given.commands.timeout_s,
    )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values whose texts have no type of their own: they are encoded for other processes."""
    return {key: str(each) if isinstance(each, str) else each for key, each in values.items()}


def _tls(given: bool | _Tls) -> Tls | None:
    if isinstance(given, bool):
        return Tls() if given else None
    return Tls(**_plain(structs.asdict(given)))


def _redis(given: _Redis) -> RedisEndpoint:
    host, port, database, secure = _redis_url("url", given.url)
    inside = _redis_url("executors_url", given.executors_url) if given.executors_url else None
    return RedisEndpoint(
        host=host,
        port=port,
        database=database,
        executors_host=inside[0] if inside else None,
        executors_port=inside[1] if inside else None,
        **_plain({"username": given.username, "password": given.password}),
        tls=_tls(given.tls) or (Tls() if secure else None),
        replicas=given.replicas or 0,
    )


def _redis_url(key: str, text: str) -> tuple[str, int, int, bool]:
    url = urlsplit(text)
    database = unquote(url.path).strip("/") or "0"
    try:
        port = url.port or 6379
    except ValueError:  # not a number, or too large
        port = 0
    known = url.scheme in ("redis", "rediss") and url.hostname
    if not known or not port or not database.isdecimal():
        raise Mistake(f"redis.{key} is no Redis URL", "write redis://host:port/0")
    assert url.hostname is not None
    if url.password:
        raise Mistake(
            f"redis.{key} holds a password",
            "leave it out, and give `password: {env: NAME}` or `{file: PATH}`",
        )
    return url.hostname, port, int(database), url.scheme == "rediss"


def _nodes(
    given: Sequence[Mapping[str, str]],
) -> tuple[tuple[Node, ...], dict[str, dict[str, str]]]:
    """Name the nodes by rack and place, as in every other cluster.

    The other values of a node fill the places of its commands."""
    nodes: list[Node] = []
    variables: dict[str, dict[str, str]] = {}
    for number, values in enumerate(map(_plain, given), start=1):
        if missing := [key for key in ("rack", "host") if key not in values]:
            raise Mistake(f"nodes[{number}] lacks {', '.join(missing)}", "add it")
        rack = values["rack"]
        if not re.fullmatch(r"r[1-9][0-9]*", rack):
            raise Mistake(f"nodes[{number}].rack is {rack!r}", "call the racks r1, r2, ...")
        place = sum(node.rack == rack for node in nodes) + 1
        nodes.append(
            Node(name=f"{rack}n{place}", rack=rack, worker=f"{rack}w{place}", host=values["host"])
        )
        variables[nodes[-1].name] = {**values, "node": nodes[-1].name}
    nodes.sort(key=lambda node: (int(node.rack[1:]), int(node.name.split("n")[1])))
    if (racks := {node.rack for node in nodes}) != {f"r{n + 1}" for n in range(len(racks))}:
        raise Mistake(f"nodes has the racks {sorted(racks)}", "call them r1, r2, ...")
    return tuple(nodes), variables


def _commands(given: _Commands, places: set[str]) -> dict[str, Command]:
    found: dict[str, Command] = {}
    for name, text in structs.asdict(given).items():
        if isinstance(text, str):
            filled = places | {"pid"} if name in _OF_PROCESSES else places
            found[name] = _command(f"commands.{name}", text, filled)
    for one, other in (("pause", "resume"), ("cut", "heal"), _OF_PROCESSES):
        if (one in found) != (other in found):
            raise Mistake(f"commands has only one of {one} and {other}", "give both or neither")
    return found


def _command(where: str, text: str, places: set[str]) -> Command:
    """Return a command whose places are among these."""
    try:
        command = Command(words=tuple(shlex.split(text)))
        unknown = sorted(command.places - places)
    except ValueError as error:
        raise Mistake(f"{where} cannot be read: {error}", "mend it") from error
    if unknown:
        raise Mistake(
            f"{where} has a place {{{unknown[0]}}} that not every node fills",
            f"use {', '.join(f'{{{place}}}' for place in sorted(places))}, or give every node "
            f"a {unknown[0]}; a brace that is meant is written twice",
        )
    if not command.words:
        raise Mistake(f"{where} is empty", "give a program and its arguments")
    return command
