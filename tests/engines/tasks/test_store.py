"""The store on a real Redis server: stored values, fenced writers, and lack of space."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from redis.exceptions import (
    AuthenticationError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from harness.cluster.agent.ports import free_port
from harness.cluster.configuration import redis_configuration
from harness.cluster.endpoints import RedisEndpoint
from harness.engines.tasks import store as stores
from harness.engines.tasks.store import RedisError, Store, StoreFull, TooFewReplicas
from harness.environment.redis_server import find_redis
from harness.errors import EnvironmentFailure, FaultlineError
from tests.engines.tasks.kit import in_a_loop

MEMORY = 16 << 20
WORD = "for-this-test-only"
CONTRACT: list[Callable[..., Awaitable[None]]] = []


@contextmanager
def serving(directory: Path, port: int, more: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run a server in a directory until the end of the context."""
    try:
        program = find_redis(fetch=False)
    except FaultlineError as error:
        pytest.skip(str(error))
    configuration = directory / "redis.conf"
    configuration.write_text(
        f'bind 127.0.0.1\nport {port}\nrequirepass {WORD}\nsave ""\nmaxmemory {MEMORY}\n'
        f"maxmemory-policy noeviction\n{more}"
    )
    with subprocess.Popen(
        [program, configuration], cwd=directory, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if "eady to accept connections" in line:
                break
        assert process.poll() is None, "".join(said)
        try:
            yield process
        finally:
            process.kill()  # asked to end, one that cannot save would stay


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisEndpoint]:
    """Start a server with little memory; the keys of different tests are under different runs."""
    port = free_port()
    with serving(tmp_path_factory.mktemp("redis"), port):
        yield RedisEndpoint(host="127.0.0.1", port=port, password=WORD)


def on_store(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test with a store of its own, and with the server's endpoint if it takes it.

    The virtual server is held to the tests that take the store alone (``CONTRACT``)."""
    wanted_names = [*inspect.signature(test).parameters]
    if wanted_names == ["store"]:
        CONTRACT.append(test)

    @in_a_loop
    async def run(endpoint: RedisEndpoint, request: pytest.FixtureRequest) -> None:
        store = Store(endpoint, f"{os.getpid()}-{request.node.name}")
        wanted = {"store": store, "endpoint": endpoint}
        try:
            await test(**{name: wanted[name] for name in wanted_names})
        finally:
            await store.clear()
            await store.close()

    return run


async def put(store: Store, term: int, position: int, *, forget_below: int = 0) -> bool:
    return await store.put(
        3, term=term, position=position, checkpoint=b"at %d" % position, forget_below=forget_below
    )


async def at(store: Store, position: int | None = None) -> bytes | None:
    return (await store.get(3, term=None, position=position)).checkpoint


@on_store
async def test_the_newest_is_found(store: Store) -> None:
    assert await at(store) is None
    assert await put(store, 1, 5)
    assert await put(store, 1, 10, forget_below=10)
    assert await at(store) == b"at 10"
    assert await at(store, 5) is None
    assert await put(store, 1, 5)  # repeated late: it changes nothing
    assert await at(store) == b"at 10"


@on_store
async def test_coordinated_checkpoints_are_kept_until_an_epoch_replaces_them(store: Store) -> None:
    for position in (5, 10, 15):
        await put(store, 1, position)
    assert await at(store, 5) == b"at 5"
    assert await at(store) == b"at 15"
    await store.forget(4, below=10)
    assert await at(store, 5) is None
    assert await at(store, 10) == b"at 10"


@on_store
async def test_a_lower_term_is_refused(store: Store) -> None:
    assert await put(store, 1, 5)
    assert (await store.get(3, term=4, position=None)).checkpoint == b"at 5"
    assert not await put(store, 3, 10)
    assert (await store.get(3, term=3, position=None)).refused
    assert await at(store) == b"at 5"  # a replica reads without a fence
    assert await put(store, 4, 10)


@on_store
async def test_two_primaries_at_once_agree_on_one(store: Store) -> None:
    kept = await asyncio.gather(*(put(store, term, term) for term in range(1, 30)))
    last = max(term for term, won in enumerate(kept, start=1) if won)
    assert last == 29
    assert await at(store) == b"at 29"


@on_store
async def test_a_state_without_room_is_an_answer_and_the_others_stay(store: Store) -> None:
    await put(store, 1, 5)
    with pytest.raises(StoreFull, match=r"task 7 at batch 0, 16\.8 MB"):
        await store.put(7, term=1, position=0, checkpoint=bytes(MEMORY))
    assert await at(store) == b"at 5"


@on_store
async def test_the_registry_only_moves_on(store: Store) -> None:
    assert await store.take_registry(7) == (1, None)
    assert await store.put_registry(1, 1, b"one") is None
    assert await store.put_registry(1, 3, b"three") is None
    assert await store.put_registry(1, 2, b"two") is None
    assert await store.take_registry(7) == (1, b"three")


@on_store
async def test_a_coordinator_that_was_replaced_writes_nothing(store: Store) -> None:
    assert await store.take_registry(7) == (1, None)
    assert await store.take_registry(9) == (2, None)
    assert await store.put_registry(1, 1, b"of the first") == 2
    assert await store.put_registry(2, 1, b"of the second") is None
    assert await store.take_registry(7) == (1, b"of the second"), "it keeps its term"


@on_store
async def test_no_life_of_a_node_has_the_number_of_another(store: Store) -> None:
    boots = await asyncio.gather(*(store.next_boot(2) for _ in range(20)))
    assert sorted(boots) == list(range(1, 21))
    assert await store.next_boot(1) == 1


@on_store
async def test_runs_do_not_see_each_other(store: Store, endpoint: RedisEndpoint) -> None:
    await put(store, 9, 5)
    other = Store(endpoint, "another")
    assert await at(other) is None
    assert await put(other, 1, 1)
    await other.clear()
    assert await at(store) == b"at 5"
    await other.close()


@on_store
async def test_the_latest_end_of_an_output_partition_is_kept(store: Store) -> None:
    assert await store.get_end(3) is None
    for offset in (5, 9, 7):
        await store.put_end(3, offset, b"at %d" % offset)
    assert await store.get_end(3) == b"at 9"
    assert await store.get_end(4) is None


@on_store
async def test_a_write_that_no_replica_has_is_not_stored(endpoint: RedisEndpoint) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "WAIT_MS", 10)
        store = Store(replace(endpoint, replicas=1), f"{os.getpid()}-waiting")
        with pytest.raises(RedisError, match="0 of 1 replicas"):
            await put(store, 1, 5)
        with pytest.raises(RedisError, match="0 of 1 replicas"):
            await store.put_registry(1, 1, b"decisions")
        await store.clear()
        await store.close()


def test_a_server_with_an_append_only_file_survives_a_kill(tmp_path: Path) -> None:
    """By the configuration of a local cluster with that option."""
    port = free_port()
    text = redis_configuration(
        host="127.0.0.1", port=port, password=WORD, directory=tmp_path, append_only=True
    )
    assert "appendfsync everysec\n" in text
    more = text + "appendfsync always\n"  # or the test would have to wait for a second
    endpoint = RedisEndpoint(host="127.0.0.1", port=port, password=WORD)

    @in_a_loop
    async def write() -> None:
        store = Store(endpoint, "run")
        assert await store.take_registry(7) == (1, None)
        assert await store.put_registry(1, 3, b"decisions") is None
        assert await store.next_boot(0) == 1
        await store.close()

    @in_a_loop
    async def read() -> None:
        store = Store(endpoint, "run")
        assert await store.take_registry(8) == (2, b"decisions")
        assert await store.next_boot(0) == 2, "no boot number is given twice"
        await store.close()

    with serving(tmp_path, port, more) as process:
        write()
        process.kill()
        process.wait()
    with serving(tmp_path, port, more):
        read()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "OOM"),
        (ReadOnlyError("You can't write against a read only replica."), "READONLY"),
        (MasterDownError("Link with MASTER is down"), "MASTERDOWN"),
        (ResponseError("NOREPLICAS Not enough good replicas to write."), "NOREPLICAS"),
        (ResponseError("MISCONF Redis is configured to save RDB snapshots"), "MISCONF"),
        (TooFewReplicas("NOREPLICAS 0 of 1"), "NOREPLICAS"),
        (AuthenticationError("invalid username-password pair"), "WRONGPASS"),
        (NoPermissionError("this user has no permissions"), "NOPERM"),
        (ResponseError("Error running script: @user_script: 5: -OOM command not allowed"), "OOM"),
        (ResponseError("Error running script: @user_script: 5: -READONLY You can't"), "READONLY"),
        (ResponseError("WRONGTYPE Operation against a key"), ""),
    ],
)
@in_a_loop
async def test_only_a_lack_of_memory_is_a_full_store(
    monkeypatch: pytest.MonkeyPatch, error: RedisError, code: str
) -> None:
    """Every other refusal is repeated, and reported once it has lasted."""
    assert stores.code_of(error) == code
    monkeypatch.setattr(stores, "REFUSED_S", 0.0)
    store = Store(RedisEndpoint(host="nowhere", port=1), "run")
    lasting: list[EnvironmentFailure] = []
    store.refused = lasting.append

    async def room() -> tuple[int, int]:
        return 0, 0

    async def refuse(**_: object) -> None:
        raise error

    store._room, store._put = room, refuse  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(StoreFull if code == "OOM" else type(error)):
            await put(store, 1, 5)
    assert len(lasting) == (code != "OOM")
    for failure in lasting:
        assert "Redis at nowhere:1 has refused every change" in failure.what
        assert failure.remedy == stores.REMEDIES.get(code, "look at its log and its settings")
    await store.close()
