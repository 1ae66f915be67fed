"""Several processes that answer on one port: to clients they are one API server, whichever takes a connection."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import random
import signal
import ssl
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.process.background import count_servers
from tests.integration.conftest import Kubectl, RunningCluster
from tests.integration.etcd import running_etcd
from tests.integration.test_kill_during_job import wait_for
from tests.integration.test_parts_alone import Parts

CHILD = "cathedra.cluster.apiservers.program"
COUNT = 3
ANSWERING = f"{COUNT} processes answer on"
MAPS = "/api/v1/namespaces/{}/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Administrator:
    """Sends every request over a connection of its own, so that the processes take turns."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._address = cluster["server"].removeprefix("https://")
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._own, self._other = (ssl.create_default_context(cadata=authority) for _ in range(2))
        pair = folder / "administrator.pem"
        keys = ("client-certificate-data", "client-key-data")
        pair.write_bytes(b"\n".join(base64.b64decode(user[name]) for name in keys))
        self._own.load_cert_chain(pair)

    def ask(self, method: str, path: str, body: Any = None, *, token: str = "") -> tuple[int, Any]:
        """Status and answer; with a ``token`` as its user."""
        data, kind = self.send(method, path, None if body is None else json.dumps(body), token)
        return data[0], json.loads(data[1]) if kind.startswith("application/json") else data[1]

    def send(self, method: str, path: str, body: str | None = None, token: str = "") -> tuple[tuple[int, str], str]:
        connection = http.client.HTTPSConnection(self._address, context=self._other if token else self._own, timeout=60)
        headers = {"Content-Type": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return (answer.status, answer.read().decode()), answer.headers["Content-Type"]
        finally:
            connection.close()

    def must(self, method: str, path: str, body: Any = None, *, token: str = "") -> Any:
        """The answer, which is no refusal."""
        status, answer = self.ask(method, path, body, token=token)
        assert status < 300, f"{method} {path}: {answer}"
        return answer


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="servers-") as name:
        yield Path(name)


@pytest.fixture
def parts(folder: Path) -> Iterator[Parts]:
    with ExitStack() as stack:
        yield Parts(folder, stack)


def start(parts: Parts, folder: Path, *options: str, name: str = "apiserver") -> Administrator:
    parts.start_as(name, "apiserver", f"--data-dir={folder}", f"--apiserver-count={COUNT}", *options)
    parts.wait_for(name, ANSWERING)
    return Administrator(folder / "kubeconfig", folder)


def children(folder: Path) -> list[int]:
    """The processes beside the first."""
    holder = DataDir(folder).holder()
    assert holder is not None
    listed = (Path(f"/proc/{holder}/task/{thread}/children") for thread in os.listdir(f"/proc/{holder}/task"))
    found = [int(child) for file in listed for child in file.read_text().split()]
    return [child for child in sorted(found) if CHILD in Path(f"/proc/{child}/cmdline").read_text()]


def config_map(name: str, value: str = "") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}


def requests_counted(text: str, verb: str, resource: str) -> float:
    """Return the number of requests of a kind, by the metrics."""
    lines = (line for line in text.splitlines() if line.startswith("apiserver_request_total{"))
    wanted = (f'verb="{verb}"', f'resource="{resource}"')
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(label in line for label in wanted))


def assert_one_server(admin: Administrator) -> None:
    """Writes of one connection are visible on the next ones, which other processes serve."""
    for number in range(12):
        name = f"space-{number}"
        admin.must("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        maps = MAPS.format(name)
        admin.must("POST", maps, config_map("one", "a"))
        assert admin.ask("POST", maps, config_map("one", "b"))[0] == 409
        read = admin.must("GET", f"{maps}/one")
        read["data"]["value"] = "b"
        written = admin.must("PUT", f"{maps}/one", read)
        assert admin.ask("PUT", f"{maps}/one", read)[0] == 409
        assert admin.must("PUT", f"{maps}/one", written | {"data": {"value": "c"}})["data"] == {"value": "c"}
        patched = admin.must("PATCH", f"{maps}/one", {"data": {"value": "d"}})
        revision = patched["metadata"]["resourceVersion"]
        newer = admin.must("GET", f"{maps}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan")
        assert [item["data"]["value"] for item in newer["items"]] == ["d"]
        admin.must("DELETE", f"{maps}/one")
        assert admin.ask("GET", f"{maps}/one")[0] == 404
        admin.must("POST", maps, config_map("one", "again"))
        assert [item["metadata"]["name"] for item in admin.must("GET", maps)["items"]] == ["one"]


def assert_permissions_hold_at_once(admin: Administrator) -> None:
    """A new account and its rights are known to the process that serves the next connection."""
    for number in range(6):
        account = f"reader-{number}"
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        admin.must("POST", accounts, {"metadata": {"name": account}})
        token = admin.must("POST", f"{accounts}/{account}/token", {"spec": {}})["status"]["token"]
        path = "/api/v1/namespaces/default/configmaps"
        assert admin.ask("GET", path, token=token)[0] == 403
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
        rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
        admin.must("POST", f"{rbac}/roles", {"metadata": {"name": account}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
        subjects = [{"kind": "ServiceAccount", "name": account, "namespace": "default"}]
        admin.must(
            "POST", f"{rbac}/rolebindings", {"metadata": {"name": account}, "roleRef": role, "subjects": subjects}
        )
        admin.must("GET", path, token=token)


def assert_custom_kinds_are_served_at_once(admin: Administrator) -> None:
    """An established kind is served by the process of the next connection."""
    for number in range(6):
        plural = f"things{number}"
        names = {"plural": plural, "singular": f"thing{number}", "kind": f"Thing{number}"}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        group = f"g{number}.example.com"
        spec = {"group": group, "names": names, "scope": "Cluster", "versions": [version]}
        admin.must("POST", CRDS, {"metadata": {"name": f"{plural}.{group}"}, "spec": spec})
        wait_for(
            lambda crd=f"{CRDS}/{plural}.{group}": any(  # type: ignore[misc]  # mypy knows no defaults of lambdas
                one["type"] == "Established" and one["status"] == "True"
                for one in admin.must("GET", crd)["status"]["conditions"] or ()
            ),
            "the kind is established",
        )
        path = f"/apis/{group}/v1"
        for _ in range(COUNT):
            assert [one["name"] for one in admin.must("GET", path)["resources"]] == [plural]
        body = {"apiVersion": f"{group}/v1", "kind": names["kind"], "metadata": {"name": "one"}, "size": 3}
        admin.must("POST", f"{path}/{plural}", body)
        assert admin.must("GET", f"{path}/{plural}/one")["size"] == 3
        admin.must("DELETE", f"{CRDS}/{plural}.{group}")


def test_clients_meet_one_server(parts: Parts, folder: Path) -> None:
    admin = start(parts, folder)
    assert len(children(folder)) == COUNT - 1
    assert_one_server(admin)
    assert_permissions_hold_at_once(admin)
    assert_custom_kinds_are_served_at_once(admin)
    # Each process counts its own requests, and a scrape reaches any of them.
    counts = {requests_counted(admin.send("GET", "/metrics")[0][1], "POST", "namespaces") for _ in range(COUNT * 2)}
    assert max(counts) < 12 <= sum(counts) * 2, counts
    assert parts.stop("apiserver") == 0


def test_an_etcd_is_shared_by_all_processes(parts: Parts, folder: Path) -> None:
    with running_etcd(folder / "etcd") as etcd:
        admin = start(parts, folder, f"--store={etcd.url}")
        assert_one_server(admin)
        assert_permissions_hold_at_once(admin)
        assert_custom_kinds_are_served_at_once(admin)
        assert parts.stop("apiserver") == 0


def test_every_request_is_audited_once(parts: Parts, folder: Path) -> None:
    log = folder / "audit.log"
    admin = start(parts, folder, f"--audit-log-path={log}")
    with ThreadPoolExecutor(8) as threads:
        bodies = [config_map(f"m{number}", "x" * 3000) for number in range(60)]
        list(threads.map(lambda body: admin.must("POST", MAPS.format("default"), body), bodies))
    assert parts.stop("apiserver") == 0
    events = [json.loads(line) for line in log.read_text().splitlines()]
    created = [
        event["auditID"]
        for event in events
        if event["verb"] == "create" and event["stage"] == "ResponseComplete" and event["responseStatus"]["code"] == 201
    ]
    assert len(created) == len(set(created)) == 60


class Account:
    """Acknowledged state of one writer's objects, and the states that are possible since."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}
        self.open: defaultdict[str, set[str]] = defaultdict(set)

    def write(self, admin: Administrator, number: int, name: str) -> None:
        """Write an object; a connection that is lost leaves its write open."""
        path, value = MAPS.format("default"), f"v{number}"
        known = name in self.acknowledged
        self.open[name].add(value)
        try:
            status, answer = admin.ask(
                "PUT" if known else "POST", f"{path}/{name}" if known else path, config_map(name, value)
            )
        except (OSError, http.client.HTTPException):
            return
        if status < 300:
            self.acknowledged[name] = value
            del self.open[name]
        else:
            # 409: an earlier write of it came about, and no client was told.
            assert status in ({503, 504} if known else {409, 503, 504}), answer

    def check(self, found: Mapping[str, str]) -> None:
        """Compare with what is there now, which settles what was open."""
        for name in self.acknowledged.keys() | self.open.keys():
            value, known = found.get(name), self.acknowledged.get(name)
            assert value == known or value in self.open[name], f"{name} is {value}: {known} was acknowledged"
            if value is not None:
                self.acknowledged[name] = value
        self.open.clear()


def acknowledged(writers: Sequence[Account]) -> int:
    return sum(len(one.acknowledged) for one in writers)


def test_nothing_that_was_acknowledged_is_lost_whichever_process_is_killed(parts: Parts, folder: Path) -> None:
    chance = random.Random(5)
    writers = [Account() for _ in range(4)]
    admin = start(parts, folder)
    for life in range(6):
        victims = [*children(folder), DataDir(folder).holder()]
        victim = victims[life % len(victims)]
        assert victim is not None
        with ThreadPoolExecutor(len(writers)) as threads:

            def storm(
                place: int, life: int = life, admin: Administrator = admin, seed: float = chance.random()
            ) -> None:
                own = random.Random(seed + place)
                for number in range(40):
                    writers[place].write(admin, life * 100 + number, f"w{place}-{life}-{own.randrange(5)}")

            storms = [threads.submit(storm, place) for place in range(len(writers))]
            enough = acknowledged(writers) + 8
            wait_for(lambda: acknowledged(writers) >= enough, "writes are acknowledged")  # noqa: B023  # called here
            os.kill(victim, signal.SIGKILL)
            for one in storms:
                one.result()
        if DataDir(folder).holder() is None or victim == victims[-1]:
            admin = start(parts, folder, name=f"life-{life}")
        else:
            wait_for(lambda: len(children(folder)) == COUNT - 1, "the process is started again")
        items = admin.must("GET", MAPS.format("default"))["items"]
        found = {item["metadata"]["name"]: item["data"]["value"] for item in items if "data" in item}
        for account in writers:
            account.check(found)
    assert acknowledged(writers) > 40


def test_a_server_that_is_stopped_is_replaced_and_its_clients_go_on(parts: Parts, folder: Path) -> None:
    admin = start(parts, folder)
    (stopped, *_) = children(folder)
    os.kill(stopped, signal.SIGSTOP)
    try:
        wait_for(lambda: stopped not in children(folder), "the stopped process is killed")
        wait_for(lambda: len(children(folder)) == COUNT - 1, "another process is started")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGKILL)
    for _ in range(2 * COUNT):
        admin.must("GET", MAPS.format("default"))


def test_a_whole_cluster_has_several_servers(start_cluster: Any) -> None:
    cluster: RunningCluster = start_cluster(
        "--nodes=2", "--gpus=4", "--runtime=simulated", f"--apiserver-count={COUNT}"
    )
    wait_for(lambda: ANSWERING in cluster.data.log.read_text(), "all processes answer")
    pid = cluster.data.holder()
    assert pid is not None
    assert count_servers(pid) == COUNT
    kubectl = Kubectl(cluster)
    kubectl("run", "p", "--image=host")
    for _ in range(COUNT):
        kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=120s")
    for _ in range(COUNT):
        wait_for(lambda: kubectl.run("top", "pod", "p").returncode == 0, "every process knows what pods use")
    running = children(cluster.data.path)
    assert len(running) == COUNT - 1
    cluster.down()
    assert not [pid for pid in running if Path(f"/proc/{pid}").exists()]
