"""The one walk over measured campaigns, which every page, table and archive takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from harness.experiment import Experiment
from harness.pages.assessment import Assessment, assess
from harness.results.provenance import machine_name
from harness.results.record import Profile
from harness.results.store import Campaign, RecordStore
from harness.running.discovery import all_experiments
from harness.text import Notify

Requested = Mapping[tuple[str, Profile], Campaign]
"""The campaigns of a command, by experiment and profile."""


def named(name: str | None) -> Sequence[Experiment]:
    """Return the experiments with this id, or of this group; all without a name."""
    return [each for each in all_experiments() if name in (None, each.id, each.group)]


def campaigns(
    store: RecordStore,
    experiments: Sequence[Experiment] | None = None,
    requested: Requested = MappingProxyType({}),
    *,
    machine: str | None = None,
) -> Iterator[tuple[Experiment, Profile, Campaign]]:
    """Yield every measured experiment and profile with its campaign.

    That is the one in ``requested``, else the newest. Those requested come first, then the profile
    measured last; smoke, which decides little, after all others. ``machine``: the machine's name,
    by default this machine's."""
    machine = machine or machine_name()
    for experiment in all_experiments() if experiments is None else experiments:
        profiles = store.profiles(experiment.measurement.id, machine)
        order = sorted(
            profiles, key=lambda p: ((experiment.id, p) not in requested, p is Profile.SMOKE)
        )
        for profile in order:
            campaign = requested.get((experiment.id, profile)) or store.newest_campaign(
                experiment.measurement.id, machine, profile, experiment.grid[profile]
            )
            if campaign is not None and campaign.records:
                yield experiment, profile, campaign


def assessments(store: RecordStore, *, tell: Notify = lambda text: None) -> Iterator[Assessment]:
    """Judge every experiment, profile and machine of a store; ``tell`` gets a line for each."""
    for machine in store.machines():
        for experiment, profile, campaign in campaigns(store, machine=machine):
            tell(f"{experiment.id} ({profile.value}), {machine}")
            yield assess(experiment, profile, campaign)
