"""A community navigation service, made up as the PPA papers describe theirs (Q2).

100,000 users on 1,000 road segments by a Zipf law with s = 0.5 report their position and speed
once every five seconds (20,000 records a second); an incident happens every two seconds on the
average, on a segment with probability proportional to its users, and every user on the segment
reports it. The papers' own data was never published; what they do not say is chosen here: free
and jammed speeds, and that half of the incidents jam their segment for 20 to 60 s.

Time is nominal: record i of a partition is due at i / (rate of the partition). Both sources
follow the same clock as long as they are sent in proportion to `location_rate` and
`report_rate`. Segments, with all their users, are dealt to partitions, so that both sources have
a segment in the same partition."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from datasets.blocks import BlockSource, balanced, lookup_table
from datasets.fields import Layout
from harness.errors import UsageError
from harness.seeds import generator

LOCATION = Layout({"user": 6, "segment": 4, "speed": 3})
"""A user's position report; the speed is in km/h."""
REPORT = Layout({"incident": 8, "segment": 4, "user": 6})
"""A user's report of an incident on the own segment."""

ZIPF_EXPONENT = 0.5
REPORT_INTERVAL_S = 5.0
"""Seconds between two reports of a user's position."""
INCIDENT_INTERVAL_S = 2.0
"""Mean time between incidents."""
JAM_SHARE = 0.5
JAM_S = (20.0, 60.0)
FREE_KMH, JAMMED_KMH, SPREAD_KMH = (60, 110), (4, 14), 8
"""Ranges of a segment's free and jammed speed, and how far a car is off at most."""

_INCIDENT_BLOCK = 1 << 10

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The distribution of ``users`` on ``segments``, dealt to ``partitions``."""

    users: int = 100_000
    segments: int = 1_000
    partitions: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= self.segments <= self.users:
            raise UsageError(
                f"{self.users} users on {self.segments} segments in {self.partitions} partitions",
                remedy="give every segment a user and every partition a segment",
            )
        if self.users > 10**6 or self.segments > 10**4:
            raise UsageError(
                f"{self.users} users on {self.segments} segments do not fit into the records",
                remedy="give at most 1,000,000 users and 10,000 segments",
            )

    def users_per_segment(self) -> Ints:
        """Users on each segment, busiest first, by Zipf's law; they sum to ``users``."""
        weights = np.arange(1, self.segments + 1) ** -ZIPF_EXPONENT
        exact = self.users * weights / weights.sum()
        whole: Ints = np.maximum(np.floor(exact), 1).astype(np.int64)
        missing = self.users - int(whole.sum())
        largest_rest = np.argsort(whole - exact, kind="stable")
        whole[largest_rest[: max(missing, 0)]] += 1
        # Where a tiny population was rounded up to one user each, the busiest segments give.
        for _ in range(-missing):
            whole[np.flatnonzero(whole == whole.max())[-1]] -= 1
        return whole

    def partition_of_segment(self) -> Ints:
        """Return the partition of each segment; partitions have about the same number of users."""
        return balanced(self.users_per_segment().astype(float), self.partitions)

    @property
    def mean_reports(self) -> float:
        """Expected reports of an incident: Σu² / Σu, since incidents go where users are."""
        users = self.users_per_segment().astype(float)
        return float((users**2).sum() / users.sum())

    @property
    def location_rate(self) -> float:
        """Position reports per second, all partitions together."""
        return self.users / REPORT_INTERVAL_S

    @property
    def report_rate(self) -> float:
        """Incident reports per second, all partitions together."""
        return self.mean_reports / INCIDENT_INTERVAL_S


@dataclass(frozen=True, slots=True)
class Incidents:
    """Consecutive incidents of one partition, one array item each."""

    number: Ints
    """Unique over all partitions."""
    segment: Ints
    first_report: Ints
    """Index of its first report in the partition; the incident happens when that is due."""
    reports: Ints
    jam_s: NDArray[np.float64]
    """Seconds for which it jams its segment; 0 for half of them."""


class IncidentPlan:
    """Places and times of incidents in one partition, as far as they were needed so far."""

    def __init__(self, population: Population, seed: int, partition: int) -> None:
        self.population, self.partition, self._seed = population, partition, seed
        self.segments = np.flatnonzero(population.partition_of_segment() == partition)
        users = population.users_per_segment()
        self.users = users[self.segments]
        """Users on each segment of this partition."""
        self._first_user = (np.cumsum(users) - users)[self.segments]
        self._draw = lookup_table(self.users.astype(float), 1 << 16)
        self._block = lru_cache(maxsize=None)(self._make)

    @property
    def report_rate(self) -> float:
        """Incident reports per second in this partition."""
        return self.population.report_rate / self.population.partitions

    def people(self) -> tuple[Ints, Ints]:
        """Every user of this partition and the place of their segment in `segments`."""
        place = np.repeat(np.arange(len(self.segments)), self.users)
        before = np.repeat(np.cumsum(self.users) - self.users, self.users)
        within = np.arange(len(place)) - before
        return self._first_user[place] + within, place

    def _make(self, block: int) -> Incidents:
        random = generator(self._seed, "incidents", self.partition, block)
        place = self._draw[random.integers(0, 1 << 16, _INCIDENT_BLOCK)]
        reports = self.users[place]
        start = 0
        if block:
            last = self._block(block - 1)
            start = int(last.first_report[-1] + last.reports[-1])
        jams = random.random(_INCIDENT_BLOCK) < JAM_SHARE
        index = np.arange(block * _INCIDENT_BLOCK, (block + 1) * _INCIDENT_BLOCK)
        return Incidents(
            number=index * self.population.partitions + self.partition,
            segment=self.segments[place],
            first_report=start + np.cumsum(reports) - reports,
            reports=reports,
            jam_s=np.where(jams, random.uniform(*JAM_S, _INCIDENT_BLOCK), 0.0),
        )

    def covering(self, first: int, last: int) -> Incidents:
        """Return the incidents with any report of indices ``first`` to ``last``, both included."""
        parts: list[Incidents] = []
        block = 0
        while not parts or parts[-1].first_report[-1] + parts[-1].reports[-1] <= last:
            parts.append(self._block(block))
            block += 1
        found = {
            each.name: np.concatenate([getattr(part, each.name) for part in parts])
            for each in fields(Incidents)
        }
        began, reports = found["first_report"], found["reports"]
        wanted = (began <= last) & (began + reports > first)
        return Incidents(**{name: values[wanted] for name, values in found.items()})

    def user(self, segment: Ints, place: Ints) -> Ints:
        """User number ``place`` (from 0) of each ``segment``."""
        return self._first_user[np.searchsorted(self.segments, segment)] + place


class _PlannedSource(BlockSource):
    name: ClassVar[str]

    def __init__(
        self, *, seed: int, users: int = 100_000, segments: int = 1_000, partitions: int = 2
    ) -> None:
        super().__init__(seed=seed, name=self.name)
        self.population = Population(users=users, segments=segments, partitions=partitions)

    @cached_property
    def _plans(self) -> list[IncidentPlan]:
        partitions = range(self.population.partitions)
        return [IncidentPlan(self.population, self._seed, partition) for partition in partitions]


class Reports(_PlannedSource):
    """Reported incidents: every user on the segment, one after the other."""

    name = "traffic reports"

    def draw(self, random: np.random.Generator, partition: int, indices: Ints) -> NDArray[np.void]:
        plan = self._plans[partition]
        incidents = plan.covering(int(indices[0]), int(indices[-1]))
        which = np.searchsorted(incidents.first_report, indices, side="right") - 1
        segment = incidents.segment[which]
        user = plan.user(segment, indices - incidents.first_report[which])
        return REPORT.encode(
            {"incident": incidents.number[which], "segment": segment, "user": user}
        )


class Locations(_PlannedSource):
    """Positions and speeds: every user of the partition once in five nominal seconds."""

    name = "traffic locations"

    @cached_property
    def _round(self) -> list[tuple[Ints, Ints]]:
        """Per partition its users and their segments, in the order in which they report."""
        rounds = []
        for plan in self._plans:
            users, place = plan.people()
            order = generator(self._seed, "round", plan.partition).permutation(len(users))
            rounds.append((users[order], plan.segments[place[order]]))
        return rounds

    @cached_property
    def _free_kmh(self) -> Ints:
        random = generator(self._seed, "free speed")
        return random.integers(*FREE_KMH, self.population.segments, endpoint=True)

    def draw(self, random: np.random.Generator, partition: int, indices: Ints) -> NDArray[np.void]:
        users, segments = self._round[partition]
        turn = indices % len(users)
        user, segment = users[turn], segments[turn]
        speed = self._free_kmh[segment]
        jammed = self._jammed(self._plans[partition], indices, segment)
        speed[jammed] = random.integers(*JAMMED_KMH, len(indices), endpoint=True)[jammed]
        speed += random.integers(-SPREAD_KMH, SPREAD_KMH, len(indices), endpoint=True)
        return LOCATION.encode({"user": user, "segment": segment, "speed": np.maximum(speed, 0)})

    def _jammed(self, plan: IncidentPlan, indices: Ints, segment: Ints) -> NDArray[np.bool_]:
        """Return, for each record, True if its segment is jammed when the record is due."""
        at_s = indices * self.population.partitions / self.population.location_rate
        earliest = int((at_s[0] - JAM_S[1]) * plan.report_rate)
        latest = int(at_s[-1] * plan.report_rate + 1e-9)
        incidents = plan.covering(max(earliest, 0), latest)
        from_s = incidents.first_report / plan.report_rate
        jammed = np.zeros(len(indices), dtype=bool)
        for item in np.flatnonzero(incidents.jam_s):
            first, last = np.searchsorted(
                at_s, [from_s[item], from_s[item] + incidents.jam_s[item]]
            )
            jammed[first:last] |= segment[first:last] == incidents.segment[item]
        return jammed
