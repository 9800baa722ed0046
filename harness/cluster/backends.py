"""The list of cluster backends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.cluster.base import (
    BROKER,
    STORE,
    Action,
    Cluster,
    ClusterSpec,
)
from harness.cluster.impossible import Impossible
from harness.cluster.killing import broker_names, server_of
from harness.errors import UsageError
from harness.text import did_you_mean

if TYPE_CHECKING:
    from harness.cluster.ownership import ClusterRecord


IN_FILES = frozenset({"structured", "flink"})
"""The engines that keep their state in files (`Cluster.checkpoint_location`)."""


class Make(Protocol):
    """A function that builds a cluster of that shape and starts nothing."""

    def __call__(self, spec: ClusterSpec, *, keep: bool = False) -> Cluster: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One kind of cluster that experiments can run on."""

    name: str
    """The value of ``--cluster`` and of `Cluster.backend`."""
    summary: str
    capabilities: frozenset[Action]
    """The actions on its nodes."""
    breaks: frozenset[str] = frozenset()
    """Its servers that a schedule can name as targets (`harness.cluster.base.BROKER`)."""
    code: str
    """The module or package that makes its clusters; measurements on them depend on it."""
    make: Make
    enter: Callable[[Sequence[str]], None] = lambda arguments: None
    """Takes the arguments of a command that will make such a cluster, before anything is begun; may
    replace this process by the same command elsewhere. Most can be made from this process."""
    outlives: bool = True
    """True if its clusters can outlive the process that started them."""
    no_files: str | None = None
    """The reason why it has no place for the files of `IN_FILES`; None if it has one."""

    def servers(self, record: ClusterRecord) -> Mapping[str, bool]:
        """Return the servers of a cluster on record, by name: True if it lives."""
        found: Mapping[str, bool] = self._module().servers(record)
        return found

    def remove(self, record: ClusterRecord) -> None:
        """Remove what the backend made for a cluster on record.

        That is apart from local processes and the run directory. May be called twice, and for a
        cluster of which nothing is left."""
        self._module().remove(record)

    def _module(self) -> Any:
        return import_module(f"{self.code}.cluster")  # it loads what servers need

    def refusal(self, actions: Iterable[Action]) -> tuple[str, str] | None:
        """Return the impossible ones of ``actions`` with a remedy; None if all are possible."""
        missing = sorted(set(actions) - self.capabilities)
        if not missing:
            return None
        able = [b.name for b in BACKENDS.values() if set(missing) <= b.capabilities]
        remedy = (
            f"use --cluster {' or '.join(able)}"
            if able
            else f"leave it out, or use {', '.join(sorted(self.capabilities))}"
        )
        if self.name in BACKENDS:
            return f"{', '.join(missing)}, which a {self.name} cluster cannot do", remedy
        return (
            f"{', '.join(missing)}, which the cluster {self.name} cannot do",
            f"give the file that describes it commands of these names, or {remedy}",
        )

    def lacks(self, engines: Collection[str]) -> str | None:
        """Return why it can run none of these engines; None if it can run one, or none is given."""
        return self.no_files if engines and IN_FILES.issuperset(engines) else None

    def demand(self, actions: Iterable[Action], what: str) -> None:
        """Raise `UsageError` if one of ``actions``, which ``what`` needs, cannot be done."""
        if refused := self.refusal(actions):
            raise UsageError(f"{what} needs {refused[0]}", remedy=refused[1])

    def demand_servers(self, targets: Iterable[str], what: str) -> None:
        """Raise `UsageError` if one of ``targets`` is a server that it cannot break."""
        servers = {one for one in targets if server_of(one) in (BROKER, STORE)}
        if refused := sorted(servers - self.breaks):
            able = [one.name for one in BACKENDS.values() if set(refused) <= one.breaks]
            raise UsageError(
                f"{what} breaks the {' and the '.join(refused)}, which a cluster {self.name} "
                "cannot do",
                remedy=f"use --cluster {' or '.join(able)}, or leave it out"
                if able
                else "give --cluster a file of machines with more `brokers`, or leave it out",
            )


def _make_local(spec: ClusterSpec, *, keep: bool = False) -> Cluster:
    # Imported on use: a command that starts no server should not load what servers need.
    from harness.cluster.local.cluster import LocalCluster

    return LocalCluster(spec, remove=remove_made, keep=keep)


def _make_namespaces(spec: ClusterSpec, *, keep: bool = False) -> Cluster:
    from harness.cluster.local.cluster import LocalCluster
    from harness.cluster.local.network import Namespaces

    return LocalCluster(spec, remove=remove_made, keep=keep, network=Namespaces())


def _enter_namespaces(arguments: Sequence[str]) -> None:
    from harness.cluster.local.network import enter, inside
    from harness.cluster.owned import find_programs

    if not inside():
        find_programs(lambda text: None)  # in there nothing can be fetched
        enter(arguments)


def _make_docker(spec: ClusterSpec, *, keep: bool = False) -> Cluster:
    from harness.cluster.docker.cluster import DockerCluster

    return DockerCluster(spec, remove=remove_made, keep=keep)


def _make_external(spec: ClusterSpec, *, keep: bool = False) -> Cluster:
    raise UsageError(
        "a cluster that exists already must be described",
        remedy="give --cluster a YAML file like docker/external-example.yaml",
    )


_BREAK = frozenset({Action.KILL, Action.RESTART, Action.PAUSE, Action.RESUME})
_CUT = frozenset({Action.CUT, Action.HEAL})

_EXTERNAL = Backend(
    name="external",
    summary="Kafka, Redis and Spark that exist already, described by a YAML file",
    capabilities=frozenset(),
    code="harness.cluster.external",
    make=_make_external,
)

_MACHINES = Backend(
    name="machines",
    summary="machines that are reached by SSH, listed in a YAML file",
    outlives=False,
    capabilities=_BREAK,
    breaks=frozenset({BROKER, STORE}),
    code="harness.cluster.machines",
    make=_make_external,
)

_ALL = (
    Backend(
        name="local",
        summary="child processes on this machine's loopback interface; nothing to install",
        capabilities=_BREAK,
        breaks=frozenset({BROKER, STORE}),
        code="harness.cluster.local",
        make=_make_local,
    ),
    Backend(
        name="local-namespaces",
        summary="the same with a network of its own for each worker, where the system allows it",
        capabilities=_BREAK | _CUT,
        breaks=frozenset({BROKER, STORE}),
        code="harness.cluster.local",
        make=_make_namespaces,
        enter=_enter_namespaces,
    ),
    Backend(
        name="docker",
        summary="one container per worker on this machine's Docker daemon, with a network to cut",
        capabilities=_BREAK | _CUT,
        breaks=frozenset({BROKER, STORE}),
        outlives=False,
        code="harness.cluster.docker",
        make=_make_docker,
    ),
)


def _within(make: Make) -> Make:
    """Return it with `Impossible` for a shape that the described cluster has no room for."""

    def made(spec: ClusterSpec, *, keep: bool = False) -> Cluster:
        try:
            return make(spec, keep=keep)
        except UsageError as refused:
            raise Impossible(refused.what, remedy=refused.remedy) from refused

    return made


def _described(path: Path) -> Backend:
    """Return the backend of one cluster that exists already."""
    from harness.cluster.machines.settings import describes_machines

    if describes_machines(path):
        return _machines(path)
    from harness.cluster.external.cluster import ExternalCluster
    from harness.cluster.external.settings import read_settings

    settings = read_settings(path)
    return replace(
        _EXTERNAL,
        name=settings.name,
        capabilities=frozenset(settings.actions),
        make=_within(partial(ExternalCluster, settings, remove=remove_made)),
    )


def _machines(path: Path) -> Backend:
    """Return the backend of the machines of a file."""
    from harness.cluster.machines.settings import read_machines

    machines = read_machines(path)

    @_within
    def make(spec: ClusterSpec, *, keep: bool = False) -> Cluster:
        from harness.cluster.machines.cluster import MachinesCluster

        return MachinesCluster(machines, spec, remove=remove_made, keep=keep)

    no_files = (
        f"its engine keeps its state in files, and {path} names no place for these that all "
        "machines can write to: give `checkpoints:` (docs/machines.md)"
    )
    return replace(
        _MACHINES,
        name=machines.name,
        capabilities=_BREAK | _CUT if machines.cuts else _BREAK,
        breaks=frozenset({*broker_names(machines.brokers), STORE}),
        make=make,
        no_files=None if machines.checkpoints else no_files,
    )


BACKENDS: Mapping[str, Backend] = {backend.name: backend for backend in _ALL}
DEFAULT = "local"


def find_backend(name: str) -> Backend:
    """Return the backend called ``name``, or described by the YAML file ``name``.

    Raises `UsageError` with the known names, or with the mistake in the file."""
    if name.endswith((".yaml", ".yml")):
        return _described(Path(name))
    if name not in BACKENDS:
        raise UsageError(
            f"there is no cluster backend {name!r}", remedy=did_you_mean(name, BACKENDS)
        )
    return BACKENDS[name]


def name_of(name: str) -> str:
    """Return the name in records of a backend, or of the cluster of a file; it reads no secret."""
    if not name.endswith((".yaml", ".yml")):
        return name
    from harness.cluster.external import settings
    from harness.cluster.machines.settings import describes_machines, read_machines

    path = Path(name)
    return read_machines(path).name if describes_machines(path) else settings.name_of(path)


def recorded_backend(name: str) -> Backend:
    """Return the backend that a record names, even if its describing file has changed."""
    return BACKENDS.get(name, _MACHINES if name.startswith("machines-") else _EXTERNAL)


def remove_made(record: ClusterRecord) -> None:
    """Remove what the cluster's backend made for it; given to `ClusterRecords.clean_up`."""
    recorded_backend(record.backend).remove(record)
