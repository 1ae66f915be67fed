"""The attacked cluster: ``cathedra up --detach`` in a temporary directory, its memory and its users."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.process.background import stop
from tools.attack.client import Answer, Server, User

__all__ = ["ADMIN", "MEMBER", "NAMESPACE", "NOBODY", "STRANGER", "Cluster", "memory_of", "started"]

NAMESPACE: Final = "attack"
"""In which the user with rights in one namespace has them."""
MEMBER, STRANGER, ADMIN, NOBODY = "one namespace", "no role", "administrator", "no credentials"
"""Users of the table of attacks, by the credentials that they need."""
OPTIONS: Final = ("--nodes=2", "--gpus=8", "--runtime=process", "--no-merge")
START_SECONDS: Final = 150.0


@dataclass(frozen=True)
class Cluster:
    """A running cluster and the users that attack it."""

    data: DataDir
    pid: int
    server: Server
    admin: User
    member: User
    """Has all rights in `NAMESPACE`."""
    stranger: User
    """Is authenticated and has no role."""
    nobody: User
    """Sends no credentials."""

    def memory(self) -> float:
        """The resident memory of the cluster's processes in MiB."""
        return memory_of(self.pid)


def memory_of(pid: int) -> float:
    """The resident memory of a process and its descendants in MiB; 0 if it has ended."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended since
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    total, pending = 0, [pid]
    while pending:
        one = pending.pop()
        pending += parents.get(one, [])
        total += _resident(one)
    return total / 1024


def _resident(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


@asynccontextmanager
async def started(*options: str) -> AsyncIterator[Cluster]:
    """A cluster on a free port, which is stopped and deleted at the end.

    Raises:
        RuntimeError: it does not start; the text is what it printed.
    """
    folder = Path(tempfile.mkdtemp(prefix="cathedra-attack-"))
    data = DataDir(folder / "data")
    try:
        command = [sys.executable, "-m", "cathedra.cli.main", "up", "attacked", "--detach", f"--data-dir={data.path}"]
        done = await asyncio.to_thread(
            subprocess.run, [*command, *OPTIONS, *options], capture_output=True, text=True, timeout=START_SECONDS
        )
        pid = data.holder()
        if done.returncode != 0 or pid is None:
            raise RuntimeError(done.stdout + done.stderr)
        yield await _cluster(data, pid)
    finally:
        await asyncio.to_thread(stop, data)
        shutil.rmtree(folder, ignore_errors=True)


async def _cluster(data: DataDir, pid: int) -> Cluster:
    config = yaml.safe_load(data.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    pair = data.path.parent / "admin.pem"
    pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    server = Server(int(cluster["server"].rpartition(":")[2]), authority)
    admin = User(server, certificate=pair)
    await _must(admin, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    member = User(server, token=await _account(admin, "member"))
    stranger = User(server, token=await _account(admin, "stranger"))
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "member", "namespace": NAMESPACE}
    binding = {"metadata": {"name": "member"}, "roleRef": role, "subjects": [subject]}
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings"
    await _must(admin, "POST", path, binding)
    return Cluster(data, pid, server, admin, member, stranger, User(server))


async def _account(admin: User, name: str) -> str:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    await _must(admin, "POST", path, {"metadata": {"name": name}})
    made: dict[str, Any] = json.loads((await _must(admin, "POST", f"{path}/{name}/token", {"spec": {}})).body)
    return str(made["status"]["token"])


async def _must(admin: User, method: str, path: str, body: Any) -> Answer:
    answer = await admin.send(method, path, body)
    if answer.status >= 300:
        raise RuntimeError(f"the cluster could not be set up: {answer.body.decode()}")
    return answer
