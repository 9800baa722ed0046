"""A cluster whose workers run elsewhere: on machines or in containers, with an agent on each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Generic, TypeVar

from harness.cluster.agent.place import FarPlace, Launcher
from harness.cluster.local.cluster import LocalCluster, Site
from harness.cluster.local.spark_servers import SparkDaemons
from harness.cluster.run_directory import PYTHON, write_python
from harness.cluster.spark import SparkAccess
from harness.errors import EnvironmentFailure, UsageError

_WORKERS_JAVA = "-XX:-UsePerfData -Djava.io.tmpdir=."
"""Files of an executor's virtual machine go where it works, and are removed with that."""

P = TypeVar("P", bound=FarPlace)


class FarCluster(LocalCluster, Generic[P]):
    """Workers on places with agents of their own; drivers, and by default servers, on this one."""

    kind_of_place = "the machine"
    """Its name in messages."""

    @property
    @abstractmethod
    def places(self) -> Sequence[P]:
        """The places that are connected."""

    @abstractmethod
    def place_of(self, worker: str) -> P:
        """Return the place of a worker."""

    def at_once(self, work: Callable[[P], None]) -> None:
        """Do something on all places at the same time; raise the first error."""
        with ThreadPoolExecutor(max(1, len(self.places))) as pool:
            for future in [pool.submit(work, place) for place in self.places]:
                future.result()

    def release(self) -> None:
        raise UsageError(
            "a cluster with agents elsewhere ends with its connections, so it cannot outlive this "
            "command",
            remedy="give the same --cluster to the command that uses it; what was sent stays on "
            "the machines, so each start takes seconds",
        )

    def spark_access(self) -> SparkAccess:
        return replace(super().spark_access(), executor_python=PYTHON)

    def spark_conf(self, *, racks: Sequence[str] | None = None) -> dict[str, str]:
        conf = super().spark_conf(racks=racks)
        return {**conf, "spark.executor.extraJavaOptions": _WORKERS_JAVA}

    def driver_environment(self) -> dict[str, str]:
        """Return a driver's environment, in which the nodes' Python has the same name as there."""
        found = super().driver_environment()
        place = self.run_directory / "bin"
        if not place.exists():
            place.mkdir(mode=0o700)
            write_python(place)
        return {**found, "PATH": f"{place}:{found.get('PATH', '')}"}

    def health(self) -> None:
        super().health()
        for place in self.places:
            if place.lost is not None:
                raise EnvironmentFailure(
                    f"{self.kind_of_place} {place.name} is lost: {place.lost}",
                    remedy=f"see whether {self.kind_of_place} is up and its network whole; then "
                    "run the command again",
                )

    def tidy(self) -> None:
        super().tidy()
        for place in self.places:
            if place.lost is None:
                place.agent.tidy()

    def _main_site(self, here: Launcher) -> Site:
        self._here = here
        return super()._main_site(here)

    def _launchers(self) -> Mapping[str, Launcher]:
        return {node.worker: self.launcher_on(self.place_of(node.worker)) for node in self._nodes}

    def launcher_on(self, place: P) -> Launcher:
        """Return what starts processes on a place."""
        return place.launcher(place.environment(), self._here.host)

    def _daemons_of(self, worker: str) -> SparkDaemons:
        place = self.place_of(worker)
        daemons = replace(
            self._daemons,
            launcher=self.launcher_on(place),
            java=place.java_home / "bin" / "java",
            spark_home=place.spark_home,
        )
        daemons.prepare()
        return daemons
