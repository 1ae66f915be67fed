"""The API server over TLS, as other processes meet it: requests a second, latencies, watch fan-out, memory, start.

The server is ``cathedra apiserver`` on its SQLite store, in a process of its own; the load comes from another one, over
64 connections that each send a request when the answer to the last is complete. Kubernetes' figures are those of
kube-apiserver with etcd on a machine of this kind, measured with the same load; ``--against`` puts it on any server.

    python -m benchmarks apiserver [--against KUBECONFIG] [--apiserver-count N]
    python benchmarks/apiserver.py [SECONDS]
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Target", "rows", "target_of"]

Row = tuple[str, float, str, str | float | None, str | float | None]

CONNECTIONS = 64
SECONDS = 5.0
COUNTS = (1, 2)
"""Processes that answer requests."""
ANSWERING = b"processes answer on"
"""The line of the server when all processes serve."""
WATCHERS = ((50, 9022, 45_110), (100, 22667, 100_000))
"""Number of watchers; events per second of kube-apiserver with that number (the first on a slower day); the goal."""
TIMED = 5
"""Watchers that note how long events take."""
SENT = re.compile(rb'"sent":"([0-9.]+)"')
PODS = 10_000
CLAIMS = 5_000
LISTED = 500
NAMESPACE = "bench"
LAST_CHUNK = b"0\r\n\r\n"
"""The end of a response without a length."""


def rows(seconds: float = SECONDS, against: str = "", apiserver_count: int = 0) -> Iterator[Row]:
    """The measurements, one by one; with a kubeconfig in ``against``, of that server, as far as others can see it.
    ``apiserver_count``: processes that answer requests (0: one, and then `COUNTS` of them)."""
    if against:
        with tempfile.TemporaryDirectory() as folder:
            yield from _foreign(Foreign(Path(against), Path(folder)), seconds)
        return
    for count in (apiserver_count,) if apiserver_count else COUNTS:
        for name, *found in _own(count, seconds):
            yield f"{name}, {count} processes" if count > 1 else name, *found


def _own(count: int, seconds: float) -> Iterator[Row]:
    """Measure an API server with that number of processes, from its start on."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), count)
        try:
            yield "API server, cold start to ready", server.start(), "s", 2.9, 1.0
            load = Load(server, seconds)
            yield from _requests(load)
            load.run("fill", what="pod", count=PODS - LISTED)
            load.run("fill", what="claim", count=CLAIMS)
            yield f"memory with {PODS:,} pods and {CLAIMS:,} claims", server.resident(), "MiB", 643, 300
        finally:
            server.stop()


def _foreign(server: Foreign, seconds: float) -> Iterator[Row]:
    """Measure an API server that runs already; the namespace of the load is deleted afterwards."""
    try:
        yield from _requests(Load(server, seconds))
    finally:
        server.clear()


def _requests(load: Load) -> Iterator[Row]:
    load.run("fill", what="namespace", count=1)
    load.run("fill", what="pod", count=LISTED)
    found = load.run("get")
    yield "GET a pod", found["rate"], "req/s", 4395, 8000
    yield from _latencies("GET a pod", found)
    found = load.run("list")
    yield f"LIST {LISTED} pods", found["rate"], "req/s", 70, 300
    yield from _latencies(f"LIST {LISTED} pods", found)
    found = load.run("patch")
    yield "PATCH a config map (merge), durable", found["rate"], "req/s", 746, 2000
    yield from _latencies("PATCH a config map", found)
    found = load.run("post")
    yield "POST a config map, durable", found["rate"], "req/s", 989, 2500
    yield from _latencies("POST a config map", found)
    for watchers, kubernetes, goal in WATCHERS:
        found = load.run("watch", watchers=watchers)
        name = f"events delivered to {watchers} watchers"
        yield name, found["rate"], "events/s", kubernetes, goal
        yield from _latencies(f"{name}, from write to receipt", found)


def _latencies(name: str, found: dict[str, float]) -> Iterator[Row]:
    yield f"{name}, median", found["p50"], "ms", None, None
    yield f"{name}, 99th percentile", found["p99"], "ms", None, None
    if found["server"]:
        yield f"{name}, processor time of the server", found["server"], "µs each", None, None


class Server:
    """``cathedra apiserver`` in a process of its own, or in several."""

    def __init__(self, folder: Path, count: int = 1, store: str = "sqlite") -> None:
        self.folder = folder
        self.store = store
        self.count = count
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; seconds until all of it answers requests."""
        began = time.perf_counter()
        command = [sys.executable, "-m", "cathedra.cli.main", "apiserver", f"--data-dir={self.folder}"]
        command += [f"--apiserver-count={self.count}", f"--store={self.store}"]
        log = (self.folder / "bench.log").open("wb")
        self._process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ)
        while not self._answers():
            if self._process.poll() is not None:
                raise RuntimeError((self.folder / "bench.log").read_text())
            time.sleep(0.005)
        return time.perf_counter() - began

    def _answers(self) -> bool:
        if self.count > 1 and ANSWERING not in (self.folder / "bench.log").read_bytes():
            return False
        if not (self.folder / "kubeconfig").exists():
            return False
        try:
            return b" 200 " in asyncio.run(_once(self.target, _request("GET", "/readyz")))
        except (OSError, KeyError, ValueError):
            return False

    @property
    def target(self) -> Target:
        """Return the address of the server and its credentials. Raises: OSError: it has not come so far."""
        return target_of(self.folder / "kubeconfig", self.folder)

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process is not None
        return self._process.pid

    def resident(self) -> float:
        """The memory of its processes in MiB."""
        return sum(_resident(pid) for pid in _processes(self.pid))

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(30)


def _resident(pid: int) -> float:
    """The memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def _processes(pid: int) -> tuple[int, ...]:
    """A process and its children; none if there is no such process."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return (pid, *(int(child) for one in lists for child in one.read_text().split())) if pid else ()


@dataclass(frozen=True)
class Foreign:
    """An API server that runs already; nothing is known of its process."""

    kubeconfig: Path
    folder: Path
    """For the files that let the load in."""
    pid: int = 0
    """Unknown: its processor time is not reported."""

    @property
    def target(self) -> Target:
        """Where it is, and how to be let in."""
        return target_of(self.kubeconfig, self.folder)

    def clear(self) -> None:
        """Take the namespace of the load away, and wait until it has gone."""
        from benchmarks.scheduler import clear_namespace

        _run(clear_namespace(self.kubeconfig, NAMESPACE))


def target_of(path: Path, folder: Path) -> Target:
    """Return the server of a kubeconfig's current context, with its certificates and key as files in ``folder``.

    Raises:
        ValueError: the context has no client certificate, or its server has no HTTPS address.
    """
    from cathedra.client import kubeconfig  # the processes of the load do without it

    found = kubeconfig.load(path)
    address = urlsplit(found.server)
    if address.scheme != "https" or not address.hostname or not found.client_certificate:
        raise ValueError(f"{path}: the load needs an HTTPS address and a client certificate")
    files = {}
    for name, data in (
        ("authority", found.certificate_authority),
        ("certificate", found.client_certificate),
        ("key", found.client_key),
    ):
        files[name] = str(folder / f"bench-{name}.pem")
        Path(files[name]).write_bytes(data)
    return Target(address.hostname, address.port or 443, **files)


@dataclass(frozen=True)
class Target:
    """An address with the files that open it."""

    host: str
    port: int
    authority: str
    certificate: str
    key: str

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context


class Load:
    """Load from a process of its own."""

    def __init__(self, server: Server | Foreign, seconds: float) -> None:
        self._server = server
        self._seconds = seconds

    def run(self, kind: str, **more: Any) -> dict[str, float]:
        """Put one kind of load on the server and return what was measured."""
        target = vars(self._server.target)
        order = {"kind": kind, "seconds": self._seconds, "server": self._server.pid, "target": target} | more
        done = subprocess.run(
            [sys.executable, __file__, "--load", json.dumps(order)], stdout=subprocess.PIPE, check=True, timeout=600
        )
        found: dict[str, float] = json.loads(done.stdout)
        return found


# --- in the process of the load ---------------------------------------------------------------------------------


def _request(method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench/1\r\n"
    if body:
        head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Connection(asyncio.Protocol):
    """Sends one request after the other and records their times. Responses have a length, or are chunked, as
    kube-apiserver's large ones are.
    """

    def __init__(self, requests: Iterator[bytes], done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._done = done
        self._head = b""
        self._left = 0
        self._chunked = b""
        self._began = 0.0
        self.times: list[float] = []
        self.failures = 0
        self._transport: Any = None
        self.last = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def begin(self) -> None:
        """Send the first request."""
        self._next()

    def data_received(self, data: bytes) -> None:
        if self._chunked:
            self._chunked = (self._chunked + data)[-len(LAST_CHUNK) :]
        elif self._left:
            self._left -= len(data)
        else:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            self._begin_answer(end)
        if self._left > 0 or (self._chunked and self._chunked != LAST_CHUNK):
            return
        self._left, self._chunked = 0, b""
        self.times.append(time.perf_counter() - self._began)
        self._next()

    def _begin_answer(self, end: int) -> None:
        """Of an answer whose head is complete: how much of it is still to come."""
        head = self._head[:end].lower()
        mark = head.find(b"content-length: ")
        if mark < 0:
            self._chunked = self._head[-len(LAST_CHUNK) :]
        else:
            self._left = end + 4 + int(head[mark + 16 :].partition(b"\r")[0]) - len(self._head)
        if self._head[9:10] != b"2":
            self.failures += 1
            self.last = self._head[:600]
        self._head = b""

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            return
        self._began = time.perf_counter()
        self._transport.write(request)


async def _once(target: Target, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(
        target.host, target.port, ssl=target.context(), server_hostname=target.host
    )
    writer.write(request)
    answer = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return answer


def _processor_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process and its children; 0 if the system does not report it."""
    threads = itertools.chain.from_iterable(Path(f"/proc/{one}/task").glob("*") for one in _processes(pid))
    return sum(int(Path(thread, "schedstat").read_text().split()[0]) for thread in threads) / 1e9


async def _load(target: Target, requests: Iterator[bytes], seconds: float | None, server: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    context = target.context()
    connections: list[Connection] = []
    ends: list[asyncio.Future[None]] = []
    stop = float("inf")

    def until() -> Iterator[bytes]:
        while time.perf_counter() < stop:
            request = next(requests, None)
            if request is None:
                return
            yield request

    for _ in range(CONNECTIONS):
        end = loop.create_future()
        ends.append(end)
        _, made = await loop.create_connection(
            lambda end=end: Connection(until(), end),  # type: ignore[misc]  # mypy knows no defaults of lambdas
            target.host,
            target.port,
            ssl=context,
            server_hostname=target.host,
        )
        connections.append(made)
    began, computed = time.perf_counter(), _processor_seconds(server)
    if seconds:
        stop = began + seconds
    for connection in connections:
        connection.begin()
    await asyncio.wait(ends)
    took, computed = time.perf_counter() - began, _processor_seconds(server) - computed
    times = sorted(itertools.chain.from_iterable(one.times for one in connections))
    failures = sum(one.failures for one in connections)
    if failures:
        sys.stderr.write(f"{failures} requests failed: {next(c.last for c in connections if c.failures)!r}\n")
    return _percentiles(times) | {
        "rate": (len(times) - failures) / took,
        "server": computed / len(times) * 1e6,
        "computed": computed,
    }


def _percentiles(seconds: list[float]) -> dict[str, float]:
    """Median and 99th percentile in milliseconds."""
    ordered = sorted(seconds)
    return {"p50": ordered[len(ordered) // 2] * 1000, "p99": ordered[len(ordered) * 99 // 100] * 1000}


class Watcher(asyncio.Protocol):
    """Counts the events of one watch; if it is ``timed``, it reads in each when its object was sent.

    A few do: if all did, that would take the processor from the server.
    """

    def __init__(self, label: str, *, timed: bool) -> None:
        self._label = label
        self._timed = timed
        self.received = 0
        self.times: list[float] = []

    def connection_made(self, transport: Any) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps?watch=true&labelSelector={self._label}"
        transport.write(_request("GET", path))

    def data_received(self, data: bytes) -> None:
        self.received += data.count(b"}\n")
        if self._timed:
            now = time.perf_counter()
            self.times.extend(now - float(sent) for sent in SENT.findall(data))


async def _watch(target: Target, seconds: float, count: int, server: int) -> dict[str, float]:
    """Many watchers and a few writers: events that arrive at watchers, a second."""
    loop, context = asyncio.get_running_loop(), target.context()
    label = f"watched-{os.getpid()}"  # what an earlier load wrote would come as initial events
    watchers = [Watcher(label, timed=number < TIMED) for number in range(count)]
    for one in watchers:
        await loop.create_connection(
            lambda one=one: one,  # type: ignore[misc]  # mypy knows no defaults of lambdas
            target.host,
            target.port,
            ssl=context,
            server_hostname=target.host,
        )
    await asyncio.sleep(1.0)
    began, before = time.perf_counter(), sum(one.received for one in watchers)
    written = await _load(target, _writes(label), seconds, server)
    delivered, took = sum(one.received for one in watchers) - before, time.perf_counter() - began
    found = _percentiles([seconds for one in watchers for seconds in one.times])
    return found | {"rate": delivered / took, "server": written["computed"] / delivered * 1e6}


def _writes(label: str) -> Iterator[bytes]:
    """New config maps without end. Only what differs is put into each: the load has the server's processors."""
    name = f"{label}-{os.getpid()}-%(number)d"
    data = {"key": "x" * 200, "sent": "%(sent).6f"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {label: "yes"}}, "data": data}
    make = _numbered("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", body)
    for number in itertools.count():
        yield make(number)


def _patches() -> Iterator[bytes]:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/patched-"
    kind = "application/merge-patch+json"
    made = [_numbered("PATCH", f"{path}{n}", {"data": {"key": "%(number)d"}}, kind) for n in range(CONNECTIONS * 2)]
    for number, make in enumerate(itertools.cycle(made)):
        yield make(number)


def _numbered(method: str, path: str, body: Any, kind: str = "application/json") -> Callable[[int], bytes]:
    """Requests that differ in a number and in when they were made, which stand in the body as formats."""
    head, _, rest = _request(method, path, b"-", kind).partition(b"Content-Length: 1\r\n\r\n-")
    form = json.dumps(body).encode()

    def made(number: int) -> bytes:
        sent = form % {b"number": number, b"sent": time.perf_counter()}
        return b"%bContent-Length: %d\r\n\r\n%b%b" % (head, len(sent), sent, rest)

    return made


def _objects(what: str, count: int) -> Iterator[bytes]:
    stamp = os.getpid()
    for number in range(count):
        name = f"{what}-{stamp}-{number}"
        if what == "namespace":
            yield _request("POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": NAMESPACE}}).encode())
        elif what == "pod":
            path = f"/api/v1/namespaces/{NAMESPACE}/pods"
            yield _request("POST", path, json.dumps(_pod(name)).encode())
        else:
            path = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
            yield _request("POST", path, json.dumps(_claim(name)).encode())


def _pod(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.example.com/team/app:1.2.3",
        "env": [{"name": f"VARIABLE_{n}", "value": f"value {n}"} for n in range(5)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "claims": [{"name": "gpu"}]},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "test"}},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "automountServiceAccountToken": False,
            "schedulerName": NAMESPACE,
        },
    }


def _claim(name: str) -> dict[str, Any]:
    selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    exactly = {"deviceClassName": "gpu.example.com", "selectors": [selector], "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def _play(order: dict[str, Any]) -> dict[str, float]:
    target = Target(**order["target"])
    kind, seconds, server = order["kind"], order["seconds"], order["server"]
    if kind == "watch":
        return _run(_watch(target, seconds, order["watchers"], server))
    if kind == "fill":
        if order["what"] == "pod":
            account = json.dumps({"metadata": {"name": "default"}}).encode()
            path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
            _run(_once(target, _request("POST", path, account)))
        return _run(_load(target, _objects(order["what"], order["count"]), None, server))
    if kind == "patch":
        made = (
            _request(
                "POST",
                f"/api/v1/namespaces/{NAMESPACE}/configmaps",
                json.dumps({"metadata": {"name": f"patched-{n}"}, "data": {"key": "", "more": "x" * 200}}).encode(),
            )
            for n in range(CONNECTIONS * 2)
        )
        _run(_load(target, made, None, server))
        return _run(_load(target, _patches(), seconds, server))
    if kind == "post":
        return _run(_load(target, _writes("posted"), seconds, server))
    if kind == "list":
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?limit={LISTED}"
        return _run(_load(target, itertools.repeat(_request("GET", path)), seconds, server))
    name = "pod-" + _first_pod(target)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
    return _run(_load(target, itertools.repeat(_request("GET", path)), seconds, server))


def _first_pod(target: Target) -> str:
    import urllib.request

    url = f"https://{target.host}:{target.port}/api/v1/namespaces/{NAMESPACE}/pods?limit=1"
    with urllib.request.urlopen(url, context=target.context()) as answer:
        name: str = json.load(answer)["items"][0]["metadata"]["name"]
    return name.removeprefix("pod-")


def _run(work: Any) -> Any:
    import uvloop

    return uvloop.run(work)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        sys.stdout.write(json.dumps(_play(json.loads(sys.argv[2]))))
    else:
        for row in rows(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS):
            print(f"{row[0]:<60} {row[1]:>12,.2f} {row[2]:<10} Kubernetes {row[3]}, goal {row[4]}", flush=True)
