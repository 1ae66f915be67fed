"""Run clients against API servers that are killed, and check their history: ``python -m tools.linearizability``.

    python -m tools.linearizability --seconds 60 --store sqlite --servers 3
    python -m tools.linearizability --seconds 60 --store etcd --servers 3

The exit status is 1 if no order of the operations explains the answers, or if a watch left something out.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import yaml
from tests.integration.etcd import Etcd, running_etcd
from tests.ports import free_port

from tools.attack.client import Server, User
from tools.kills.programs import Program
from tools.linearizability.checker import first_impossible
from tools.linearizability.clients import Clients
from tools.linearizability.model import (
    ABSENT,
    KubernetesOperation,
    Writes,
    check_revisions,
    check_watch,
    step,
    with_unseen_values,
)
from tools.soak.figures import processes

__all__ = ["Outcome", "Plan", "main", "run"]

CLIENTS: Final = 3
"""Clients of each server."""
KILL_SECONDS: Final = 1.5
"""Between two kills, on average."""


@dataclass(frozen=True)
class Plan:
    """Composition and duration of a run."""

    seconds: float = 60.0
    servers: int = 1
    store: str = "sqlite"
    seed: int = 1
    history: Path | None = None
    """A file for the operations; the search for their order comes after it."""


@dataclass(frozen=True)
class Outcome:
    """Results of a run."""

    history: list[KubernetesOperation]
    watches: int
    events: int
    kills: int
    problems: list[str]

    def line(self) -> str:
        """Return one line for people."""
        lost = sum(one.output is None for one in self.history)
        return (
            f"{len(self.history):,} operations ({lost:,} without an answer), {self.watches} watches with "
            f"{self.events:,} events, {self.kills} kills, {len(self.problems)} problems"
        )


async def run(folder: Path, plan: Plan) -> Outcome:
    """Run clients and kills for some seconds, and check what they have seen."""
    with ExitStack() as stack:
        etcd = stack.enter_context(running_etcd(folder / "etcd")) if plan.store == "etcd" else None
        servers: list[Program] = []
        users = []
        # On SQLite several servers are processes of one program.
        apart, together = (plan.servers, 1) if etcd else (1, plan.servers)
        for number in range(apart):
            data = folder / f"server-{number}"
            if number:
                # Servers on one store trust each other's certificates.
                shutil.copytree(folder / "server-0" / "pki", data / "pki")
            options = [f"--data-dir={data}", f"--port={free_port()}", f"--apiserver-count={together}"]
            options += [f"--store={etcd.url}"] if etcd else []
            server = Program(f"server {number}", ["apiserver", *options], folder, "export KUBECONFIG=", watched=False)
            server.start()
            stack.callback(server.stop)
            servers.append(server)
            if not await server.until_ready():
                raise RuntimeError(server.said())
            users += [_user(data)] * together
        clients = Clients(plan.seed)
        kills = await _disturbed(clients, users, servers, etcd, plan)
        if plan.history is not None:
            plan.history.write_bytes(msgspec.json.encode(clients.history))
        return _judged(clients, kills, shared=etcd is not None)


async def _disturbed(clients: Clients, users: list[User], servers: list[Program], etcd: Etcd | None, plan: Plan) -> int:
    """Let the clients work while servers, and their store, are killed. Return the number of kills."""
    tasks = [asyncio.create_task(clients.work(user)) for user in users for _ in range(CLIENTS)]
    tasks += [asyncio.create_task(clients.follow(user)) for user in users]
    # A process beside the first is started again with growing pauses, and serves only after some seconds.
    pause = KILL_SECONDS * (4 if etcd is None and plan.servers > 1 else 1)
    kills, end, victim = 0, time.monotonic() + plan.seconds, 0
    try:
        while time.monotonic() < end:
            await asyncio.sleep(min(pause, max(0.0, end - time.monotonic())))
            kills += 1
            victim += 1
            if etcd is not None and victim % (len(servers) + 1) == 0:
                await asyncio.to_thread(etcd.kill)
                await asyncio.to_thread(etcd.start)
                continue
            children = processes(servers[0].pid)[1:] if etcd is None else []
            if children and victim % plan.servers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(random.choice(children), signal.SIGKILL)
                continue
            server = servers[victim % len(servers)]
            await asyncio.to_thread(server.kill)
            server.start()
            await server.until_ready()
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [one for one in ended if isinstance(one, Exception)]
    if failed:
        raise ExceptionGroup("clients failed", failed)
    return kills


def _judged(clients: Clients, kills: int, *, shared: bool) -> Outcome:
    history = clients.history
    problems = check_revisions(history, shared=shared)
    impossible = first_impossible(with_unseen_values(history), ABSENT, step)
    if impossible:
        problems.append("no order explains:\n" + "\n".join(str(one) for one in impossible[-30:]))
    writes = Writes(history)
    for watched in clients.watches:
        problems += check_watch(watched.events, watched.start, writes, shared=shared)
    return Outcome(history, len(clients.watches), sum(len(one.events) for one in clients.watches), kills, problems)


def _user(data: Path) -> User:
    config = yaml.safe_load((data / "kubeconfig").read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    pair = data / "pair.pem"
    pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return User(Server(int(cluster["server"].rpartition(":")[2]), authority), certificate=pair)


def main() -> int:
    """Run as the options require."""
    parser = argparse.ArgumentParser(prog="tools.linearizability", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of the clients' work (default 60)")
    parser.add_argument("--servers", type=int, default=1, help="API servers; on SQLite, processes of one (default 1)")
    parser.add_argument("--store", choices=("sqlite", "etcd"), default="sqlite", help="(default sqlite)")
    parser.add_argument("--seed", type=int, default=1, help="of the requests")
    parser.add_argument("--history", type=Path, metavar="FILE", help="for the operations as JSON, before their check")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="linear-"))
    plan = Plan(options.seconds, options.servers, options.store, options.seed, options.history)
    try:
        outcome = asyncio.run(run(folder, plan))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(outcome.line())
    print("\n".join(outcome.problems[:20]), end="")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
