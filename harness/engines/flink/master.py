"""The process above the JobManager and the SQL gateway: ``python -m harness.engines.flink.master``.

Two orders: to start the JobManager, and to submit a job by its SQL statements, for which a gateway
is started and ended again. It watches the job from then on. When its standard input ends, all of
it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.child import DIED, Emit, orders, speaker

ANSWER_S = 30.0
_POLL_S = 0.2
_LAST_LINES = 8
_ORDER_S = 2.0
"""Longest time in which an order overtakes the end of the process that it is about."""
_PORTS = {
    "rpc_port": re.compile(r"Actor system started at pekko\S*://flink@\S+:(\d+)"),
    "rest_port": re.compile(r"Rest endpoint listening at \S+:(\d+)"),
}
"""Where a log says the port that the process has bound."""
_UNDER_WAY = ("RUNNING", "PENDING", "INITIALIZED")
_FATAL = ("FAILED", "CANCELED", "FINISHED")
_WORDS = 600
_ERROR = re.compile(r"Exception\b|Error\b|Caused by|\berror\b|FATAL|Could not")
ROOM = "give it more slots (slots_per_node), or less parallelism"


class Refused(Exception):
    """An answer that is an error; the text is Flink's own."""

    def __init__(self, what: str, remedy: str | None = None) -> None:
        """``remedy`` is the way out where it is known."""
        super().__init__(what)
        self.remedy = remedy


class Master:
    """The JobManager, and at times a gateway, as children of this process."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ending = threading.Event()
        self._expected = threading.Event()
        """Set while the end of the JobManager is a failure that was planned."""
        self._life = 0

    def jobmanager(self, order: Mapping[str, Any]) -> None:
        """Start it, and return when it answers."""
        process = self._start(order)
        ports = self._until(process, order, _PORTS, "/overview")
        self._rest = _url(ports)
        threading.Thread(target=self._watch, args=(process, order), daemon=True).start()
        self._emit({"event": "jobmanager", "pid": process.pid, **ports})

    def expect_end(self, order: Mapping[str, Any]) -> None:
        """Take the next end of the JobManager as planned."""
        self._expected.set()

    def submit(self, order: Mapping[str, Any]) -> None:
        """Start the gateway, execute the statements, end it; return when every task runs.

        What it then reports of its settings is in the event, by the path of the question."""
        process = self._start(order)
        gateway = _url(self._until(process, order, ["rest_port"], "/v1/info"))
        session = _ask(gateway, "/v1/sessions", {})["sessionHandle"]
        job, within_s = None, float(order["within_s"])
        for statement in [*_recovery(order.get("checkpoints")), *order["statements"]]:
            job = _execute(gateway, session, statement, within_s) or job
        process.terminate()
        if job is None:
            raise Refused("the last statement started no job")
        deadline = time.monotonic() + within_s
        while not self._runs(job):
            if time.monotonic() > deadline:
                raise Refused(self._why_not(job), ROOM)
            time.sleep(_POLL_S)
        threading.Thread(target=self._follow, args=(job,), daemon=True).start()
        said = {path: _ask(self._rest, path.format(job=job)) for path in order["ask"]}
        self._emit({"event": "runs", "job": job, "said": said})

    def close(self) -> None:
        self._ending.set()
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _start(self, order: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        place = Path(order["directory"])
        with (place / "out.log").open("wb") as log:
            process = subprocess.Popen(
                order["command"], cwd=place, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, env={**os.environ, "FLINK_CONF_DIR": str(place)},
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _until(
        self,
        process: subprocess.Popen[bytes],
        order: Mapping[str, Any],
        listens: Iterable[str],
        path: str,
    ) -> Mapping[str, int]:
        """Return the ports that it has chosen, by their names in `_PORTS`, once it answers."""
        deadline = time.monotonic() + float(order["within_s"])
        while True:
            try:
                ports = _ports(order, listens)
                _ask(_url(ports), path)
                return ports
            except (OSError, Refused) as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    code = process.poll()
                    state = f"exit code {code}" if code is not None else f"no answer: {error}"
                    what = f"its {order['name']} did not start ({state}):\n{_last(order)}"
                    raise Refused(what, _way_out(what)) from error
            time.sleep(_POLL_S)

    def _watch(self, process: subprocess.Popen[bytes], order: Mapping[str, Any]) -> None:
        code = process.wait()
        if self._expected.wait(_ORDER_S):
            self._expected.clear()
            self._life += 1
        elif not self._ending.is_set():
            self._emit(
                {"event": DIED, "error": f"its JobManager ended with {code}:\n{_last(order)}"}
            )

    def _runs(self, job: str) -> bool:
        found = _ask(self._rest, f"/jobs/{job}")
        if found["state"] in _FATAL:
            raise Refused(self._cause(job))
        return all(vertex["status"] == "RUNNING" for vertex in found["vertices"])

    def _why_not(self, job: str) -> str:
        slots = _ask(self._rest, "/overview")
        tasks = _ask(self._rest, f"/jobs/{job}")["vertices"]
        wanted = max(int(vertex["parallelism"]) for vertex in tasks)
        return (
            f"its job does not run: it needs {wanted} slots, and Flink has "
            f"{slots['slots-total']} on {slots['taskmanagers']} TaskManagers"
        )

    def _cause(self, job: str) -> str:
        said = _ask(self._rest, f"/jobs/{job}/exceptions")
        entries = said.get("exceptionHistory", {}).get("entries", [])
        return str(entries[0]["stacktrace"])[:_WORDS] if entries else "it ended without a reason"

    def _follow(self, job: str) -> None:
        """Report the end of a job that should never end, until a planned failure ends it."""
        life = self._life
        while not self._ending.wait(1.0) and life == self._life:
            try:
                state = _ask(self._rest, f"/jobs/{job}")["state"]
                if state in _FATAL:
                    self._emit({"event": DIED, "error": f"its job is {state}: {self._cause(job)}"})
                    return
            except (OSError, Refused):
                continue  # the JobManager's own end is another one's report


def _recovery(checkpoints: str | None) -> list[str]:
    """Return the statement by which a job begins with the newest of the checkpoints, if any."""
    if checkpoints is None or not checkpoints.startswith("file:"):
        return []
    there = Path(urllib.request.url2pathname(checkpoints.removeprefix("file:")))
    made = sorted(there.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime_ns)
    return [f"SET 'execution.state-recovery.path' = '{made[-1].parent.as_uri()}'"] if made else []


def _ports(order: Mapping[str, Any], listens: Iterable[str]) -> dict[str, int]:
    """Return the ports that a process says it listens on, once it has said all of them."""
    text = Path(order["directory"], "out.log").read_text(errors="replace")
    found = {name: _PORTS[name].search(text) for name in listens}
    if silent := [name for name, said in found.items() if said is None]:
        raise Refused(f"it has not said its {' and '.join(silent)} yet")
    return {name: int(said[1]) for name, said in found.items() if said is not None}


def _url(ports: Mapping[str, int]) -> str:
    return f"http://127.0.0.1:{ports['rest_port']}"


def _execute(gateway: str, session: str, statement: str, within_s: float) -> str | None:
    """Execute one statement; return the job that it started."""
    deadline = time.monotonic() + within_s

    def wait(state: str) -> None:
        if time.monotonic() > deadline:
            first = statement.partition("(")[0].strip()  # what follows can hold a password
            raise Refused(
                f"its gateway has not executed {first!r} within {within_s:g} s ({state})",
                "let the machine do less at the same time, then start again",
            )
        time.sleep(_POLL_S / 2)

    base = f"/v1/sessions/{session}"
    operation = _ask(gateway, f"{base}/statements", {"statement": statement})["operationHandle"]
    path = f"{base}/operations/{operation}"
    while (status := _ask(gateway, f"{path}/status")["status"]) in _UNDER_WAY:
        wait(status)
    while (found := _ask(gateway, f"{path}/result/0")).get("resultType") == "NOT_READY":
        wait("NOT_READY")
    job = found.get("jobID")
    return None if job is None else str(job)


def _ask(base: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the answer of a server on this machine; proxies are for others."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        base + path, data=data, headers={"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ANSWER_S) as answer:
            document: dict[str, Any] = json.load(answer)
            return document
    except urllib.error.HTTPError as error:
        raise Refused(_words(error.read())) from error
    except json.JSONDecodeError as error:
        raise Refused(f"no JSON from {path}") from error


def _words(body: bytes) -> str:
    """Return the causes in an error's answer, the innermost ones, without the stack."""
    text = body.decode(errors="replace")
    with contextlib.suppress(ValueError, KeyError, TypeError):
        text = "\n".join(map(str, json.loads(text)["errors"]))
    causes = [line for line in text.splitlines() if "Caused by" in line or "Exception" in line]
    return "\n".join(f"    {line[:_WORDS]}" for line in (causes or text.splitlines())[-3:])


def _last(order: Mapping[str, Any]) -> str:
    """Return what a log says of its process's end: from the first error on, without the stacks."""
    text = Path(order["directory"], "out.log").read_text(errors="replace")
    said: list[str] = []
    for line in text.splitlines():
        document = None
        with contextlib.suppress(ValueError):
            document = json.loads(line)
        words = f"{document['said']}\n{document['why']}" if isinstance(document, dict) else line
        said += [
            part.strip()
            for part in words.splitlines()
            if part.strip(" .") and not part.lstrip().startswith(("at ", "... "))
        ]
    first = next((n for n, part in enumerate(said) if _ERROR.search(part)), -_LAST_LINES)
    return "\n".join(f"    {part[:_WORDS]}" for part in said[first:][:_LAST_LINES])


def _way_out(said: str) -> str | None:
    if "memory" in said or "reserve enough space" in said:
        return "free some memory: each of Flink's processes takes up to 0.7 GB"
    if "Futures timed out" in said:
        return "let the machine do less at the same time, then start again"
    return None


def main() -> None:
    emit = speaker()
    master = Master(emit)
    try:
        for order in orders():
            getattr(master, order["order"])(order)
    except Refused as error:
        emit({"event": DIED, "error": str(error), "way_out": error.remedy})
    finally:
        master.close()


if __name__ == "__main__":
    main()
