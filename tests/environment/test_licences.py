"""Every package and jar that is pinned has a licence, and nothing else has."""

from __future__ import annotations

from harness.environment.licences import PACKAGE_LOCKS, WHEEL_LOCKS, jars, licences, pins

WRITE = "write them anew: .venv/bin/python -P -m harness.environment.licences"


def test_what_is_pinned_has_a_licence() -> None:
    found = licences()
    locks = (*PACKAGE_LOCKS, *WHEEL_LOCKS)
    pinned = {f"{name}=={version}" for lock in locks for name, version in pins(lock)}
    assert set(found["packages"]) == pinned, WRITE
    assert set(found["jars"]) == {name for name, _ in jars()}, WRITE
    assert all([*found["packages"].values(), *found["jars"].values()])
