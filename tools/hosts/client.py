"""Clients of a cluster that is losing hosts: ``python -m tools.hosts.client KUBECONFIG HISTORY``, until SIGTERM.

Writers increase counters by compare-and-swap and create objects. A pod with a claim is created, awaited and deleted
again and again, beside pods that stay. A watch records every allocation. Each line of the history is one finished call,
with the moment at which it began and ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from cathedra.api.core.core_v1 import ConfigMap, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict, replace
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.client.resources import CONFIGMAPS, DEVICECLASSES, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from cathedra.client.transport import EventType
from cathedra.clock import SystemClock
from cathedra.session.opening import open_transport
from tools.hosts.history import SHARED, Allocation, Call, EndState, Entry, PodRun, Snapshot

WRITERS: Final = 4
STEADY: Final = 2
"""Pods that stay."""
_CLAIMS: Final = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
_LOST: Final = frozenset({500, 503, 504})
"""Refusals after which a write may have been carried out, or may succeed later."""


@dataclass
class Recorder:
    """The history."""

    file: IO[bytes]
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, entry: Entry) -> None:
        """Append an entry; it is in the file at once."""
        self.file.write(msgspec.json.encode(entry) + b"\n")
        self.file.flush()

    @contextlib.contextmanager
    def call(self, writer: int, kind: str, key: str, value: int) -> Any:
        """Record a call: acknowledged, refused, or of unknown outcome."""
        began, outcome = time.monotonic(), "unknown"
        try:
            yield
            outcome = "ok"
        except StatusError as error:
            outcome = "unknown" if error.code in _LOST else f"refused {error.code}"
        except ConnectionError:
            pass
        finally:
            self.add(Call(writer, kind, key, value, outcome, began, time.monotonic()))


async def _write(client: Client, recorder: Recorder, writer: int) -> None:
    maps, number = client.resource(CONFIGMAPS, "default"), 0
    while not recorder.stopped.is_set():
        number += 1
        key = f"made-{writer}-{number}"
        with recorder.call(writer, "create", key, number):
            await maps.create(ConfigMap(metadata=ObjectMeta(name=key)))
        for counter in (f"counter-{writer}", SHARED):
            found = await _read(client, recorder, writer, counter)
            if found is None:
                continue
            value = int(found.data["n"]) + 1
            with recorder.call(writer, "swap", counter, value):
                await maps.update(replace(found, data={"n": str(value)}))
        await asyncio.sleep(0.05)


async def _read(client: Client, recorder: Recorder, writer: int, name: str) -> ConfigMap | None:
    began = time.monotonic()
    try:
        found = await client.resource(CONFIGMAPS, "default").get(name)
    except (StatusError, ConnectionError):
        await asyncio.sleep(0.1)
        return None
    recorder.add(Call(writer, "read", name, int(found.data["n"]), "ok", began, time.monotonic()))
    return found


def _pod(name: str) -> Pod:
    container = {"name": "c", "image": "host", "command": ["sleep", "3600"], "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], "resourceClaims": claims}
    return from_dict(Pod, {"metadata": {"name": name}, "spec": spec})


async def _run_pods(client: Client, recorder: Recorder) -> None:
    number = 0
    while not recorder.stopped.is_set():
        number += 1
        name, began = f"pod-{number}", time.monotonic()
        await _until_done(lambda name=name: client.resource(PODS, "default").create(_pod(name)))
        await _until_phase(client, name, "Running")
        recorder.add(PodRun(name, began, time.monotonic()))
        await _until_done(lambda name=name: client.resource(PODS, "default").delete(name))
        await asyncio.sleep(0.2)


async def _until_done(write: Any) -> None:
    """Repeat a write by a name of its own until it is done: a repetition is refused if it was carried out before."""
    while True:
        try:
            await write()
        except StatusError as error:
            if error.is_already_exists or error.is_not_found:
                return
        except ConnectionError:
            pass
        else:
            return
        await asyncio.sleep(0.1)


async def _until_phase(client: Client, name: str, phase: str) -> None:
    while True:
        with contextlib.suppress(StatusError, ConnectionError):
            if (await client.resource(PODS, "default").get(name)).status.phase == phase:
                return
        await asyncio.sleep(0.1)


async def _follow_claims(client: Client, recorder: Recorder) -> None:
    """Record the devices of every claim in the order of revisions; a watch that breaks goes on where it was."""
    claims, version = client.resource(RESOURCECLAIMS, "default"), "0"
    while True:
        try:
            async with claims.watch(resource_version=version) as events:
                async for event in events:
                    version = event.object.metadata.resource_version
                    if event.type is not EventType.BOOKMARK:
                        recorder.add(_allocation(event.object, removed=event.type is EventType.DELETED))
        except (StatusError, ConnectionError) as error:
            if isinstance(error, StatusError) and error.is_expired:
                version = await _snapshot(client, recorder)
            await asyncio.sleep(0.1)


async def _snapshot(client: Client, recorder: Recorder) -> str:
    """Record all allocations at one revision: a server that was started again knows no earlier history."""
    while True:
        try:
            page = await client.resource(RESOURCECLAIMS, "default").list()
        except (StatusError, ConnectionError):
            await asyncio.sleep(0.1)
            continue
        recorder.add(Snapshot([_allocation(claim, removed=False) for claim in page.items]))
        return page.resource_version


def _allocation(claim: ResourceClaim, *, removed: bool) -> Allocation:
    allocation = claim.status.allocation
    devices: list[str] = []
    if allocation is not None and not removed:
        devices = [f"{one.driver}/{one.pool}/{one.device}" for one in allocation.devices.results]
    return Allocation(claim.metadata.name, int(claim.metadata.resource_version), devices)


async def _prepare(client: Client) -> None:
    selector = [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]
    device_class = from_dict(DeviceClass, {"metadata": {"name": "gpu.example.com"}, "spec": {"selectors": selector}})
    template = from_dict(ResourceClaimTemplate, {"metadata": {"name": "one"}, "spec": {"spec": _CLAIMS}})
    await _until_done(lambda: client.resource(DEVICECLASSES).create(device_class))
    await _until_done(lambda: client.resource(RESOURCECLAIMTEMPLATES, "default").create(template))
    for name in (SHARED, *(f"counter-{writer}" for writer in range(WRITERS))):
        counter = ConfigMap(metadata=ObjectMeta(name=name), data={"n": "0"})
        await _until_done(lambda counter=counter: client.resource(CONFIGMAPS, "default").create(counter))
    for number in range(STEADY):
        await _until_done(lambda n=number: client.resource(PODS, "default").create(_pod(f"steady-{n}")))
        await _until_phase(client, f"steady-{number}", "Running")


async def _finish(client: Client, recorder: Recorder) -> None:
    """Record what is there at the end."""
    while True:
        try:
            maps = await client.resource(CONFIGMAPS, "default").list()
            pods = await client.resource(PODS, "default").list()
        except (StatusError, ConnectionError):
            await asyncio.sleep(0.1)
            continue
        break
    counters = {one.metadata.name: int(one.data["n"]) for one in maps.items if "n" in one.data}
    steady = {
        one.metadata.name: sum(status.restart_count for status in one.status.container_statuses)
        for one in pods.items
        if one.metadata.name.startswith("steady-") and one.status.phase == "Running"
    }
    recorder.add(EndState(counters, sorted(one.metadata.name for one in maps.items), steady))


async def _main(kubeconfig: str, recorder: Recorder) -> None:
    target, clock = load(kubeconfig), SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, recorder.stopped.set)
        # Half of the clients use sessions and half HTTP, each on connections of its own.
        clients = []
        for number in range(WRITERS + 2):
            opened = open_transport(target, user_agent="hosts") if number % 2 else None
            transport = (
                await stack.enter_async_context(await HTTPTransport.open(target))
                if opened is None
                else await stack.enter_async_context(opened)
            )
            clients.append(Client(transport, clock=clock))
        await _prepare(clients[0])
        print("prepared", flush=True)
        following = asyncio.create_task(_follow_claims(clients[-1], recorder))
        async with asyncio.TaskGroup() as group:
            group.create_task(_run_pods(clients[-2], recorder))
            for writer in range(WRITERS):
                group.create_task(_write(clients[writer], recorder, writer))
        await _finish(clients[0], recorder)
        if following.done():
            following.result()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


if __name__ == "__main__":
    with Path(sys.argv[2]).open("ab") as file:
        asyncio.run(_main(sys.argv[1], Recorder(file)))
