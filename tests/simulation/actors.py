"""Objects made in the words of the scenarios of docs/spec/driver-sdk.md §20, on a staged cluster."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from cathedra.api.struct import from_dict
from cathedra.client.resources import DEVICECLASSES, EVENTS, PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES
from cathedra.clock import run_virtual
from cathedra.driver import Device, DeviceStatus, Pool
from cathedra.driver.claim import ConfigModels
from cathedra.drivers.example.driver import DriverOptions, ExampleDriver
from cathedra.drivers.example.profile import PrepareContext, Site
from cathedra.node.runtime.runtime import ContainerSpec
from tests.simulation.demos import SETTLING, Stage, staged

__all__ = ["NAME", "TEST", "Actors", "a_driver", "devices", "play", "request", "use"]

TEST = ("--driver-profile", "test", "--gpus", "10")
NAME = "test.example.com"


class Actors:
    """Objects made in the words of the scenarios, and what became of them."""

    def __init__(self, stage: Stage, driver: str) -> None:
        self.stage = stage
        self.driver = driver

    def order(self, *words: str) -> None:
        self.stage.driver.controls.carry_out(words)

    def calls(self, call: str) -> list[str]:
        return [claim for which, claim in self.stage.driver.controls.calls if which == call]

    async def settle(self, seconds: float = SETTLING) -> None:
        await self.stage.clock.sleep(seconds)

    async def a_class(self, name: str = "class", selector: str = "", **spec: Any) -> None:
        expression = selector or f'device.driver == "{self.driver}"'
        body = {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}], **spec}}
        await self.stage.client.resource(DEVICECLASSES).create(from_dict(DeviceClass, body))

    async def a_claim(self, name: str = "claim", *requests: dict[str, Any], config: Any = ()) -> None:
        body = {"metadata": {"name": name}, "spec": devices(*requests, config=config)}
        await self.stage.client.resource(RESOURCECLAIMS, "default").create(from_dict(ResourceClaim, body))

    async def a_template(self, name: str = "template", *requests: dict[str, Any], config: Any = ()) -> None:
        body = {"metadata": {"name": name}, "spec": {"spec": devices(*requests, config=config)}}
        ref = self.stage.client.resource(RESOURCECLAIMTEMPLATES, "default")
        await ref.create(from_dict(ResourceClaimTemplate, body))

    async def a_tester(self, **more: Any) -> None:
        """A class, a claim, and the pod «tester» that uses it, after they have settled."""
        await self.a_class()
        await self.a_claim()
        await self.a_pod("tester", "claim", **more)
        await self.settle()

    async def a_pod(
        self,
        name: str,
        *claims: str,
        containers: dict[str, list[str]] | None = None,
        limits: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """``claims``: of claims, or of templates after ``t:``. ``containers``: name → claims, or CLAIM/REQUEST."""
        named = [claim.removeprefix("t:") for claim in claims]
        kinds = ["resourceClaimTemplateName" if claim.startswith("t:") else "resourceClaimName" for claim in claims]

        def container(called: str, wanted: list[str]) -> dict[str, Any]:
            resources = {"claims": [use(one) for one in wanted], "limits": limits or {}}
            return {"name": called, "image": "debian", "resources": resources}

        body = {
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "resourceClaims": [{"name": n, kind: n} for n, kind in zip(named, kinds, strict=True)],
                "containers": [container(*one) for one in (containers or {"with-resource": named}).items()],
                **spec,
            },
        }
        await self.stage.client.resource(PODS, "default").create(from_dict(Pod, body))

    async def pod(self, name: str) -> Pod:
        return await self.stage.client.resource(PODS, "default").get(name)

    async def phase(self, name: str) -> str:
        return (await self.pod(name)).status.phase

    async def finish(self, name: str, *, force: bool = False) -> None:
        await self.stage.client.resource(PODS, "default").delete(name, grace_period_seconds=0 if force else None)

    async def claim(self, name: str) -> ResourceClaim:
        return await self.stage.client.resource(RESOURCECLAIMS, "default").get(name)

    async def claims(self) -> list[ResourceClaim]:
        return list((await self.stage.client.resource(RESOURCECLAIMS, "default").list()).items)

    async def told(self, pod: str) -> dict[str, list[str]]:
        """Container → variables that its devices set, without those that every device sets."""
        found: dict[str, list[str]] = {}
        for line in self.stage.told(await self.pod(pod), lambda name: name.startswith(("user_", "admin_", "claim_"))):
            container, _, variable = line.partition(": ")
            found.setdefault(container, []).append(variable)
        return found

    def container(self, pod: Pod, name: str) -> ContainerSpec:
        """Return the specification of the latest run of a container."""
        uid = pod.metadata.uid
        found = [spec for spec in self.stage.runtime.specs.values() if (spec.pod.uid, spec.name) == (uid, name)]
        return max(found, key=lambda spec: spec.attempt)

    def mounted(self, pod: Pod, container: str) -> dict[str, bytes]:
        """Path in the container → content, of the files that CDI documents mount there."""
        documents = [json.loads(text) for path, text in self.files().items() if path.parent == Path("/cdi")]
        edits = {
            f"{one['kind']}={device['name']}": device["containerEdits"]
            for one in documents
            for device in one["devices"]
        }
        wanted = self.container(pod, container).cdi_devices
        mounts = [mount for device in wanted for mount in edits[device].get("mounts", ())]
        return {mount["containerPath"]: self.files()[Path(mount["hostPath"])] for mount in mounts}

    def files(self) -> Mapping[Path, bytes]:
        return self.stage.files.contents

    async def results(self, claim: str) -> list[tuple[str, str, str]]:
        """Request, driver and device of each result of the claim's allocation."""
        allocation = (await self.claim(claim)).status.allocation
        assert allocation is not None
        return [(one.request, one.driver, one.device) for one in allocation.devices.results]

    async def events(self, reason: str) -> list[str]:
        found = (await self.stage.client.resource(EVENTS, "default").list()).items
        return [event.message for event in found if event.reason == reason]


def use(claim: str) -> dict[str, str]:
    name, slash, request = claim.partition("/")
    return {"name": name, "request": request} if slash else {"name": name}


def request(name: str = "my-request", **exactly: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "class", **exactly}}


def devices(*requests: dict[str, Any], config: Any = ()) -> dict[str, Any]:
    return {"devices": {"requests": list(requests) or [request()], "config": list(config)}}


class FixedDevices:
    """A profile of devices that the test writes down itself."""

    configs: ConfigModels = {}
    spells_own_domain = False

    def __init__(self, family: str, pool: Pool) -> None:
        self.family = family
        self._pool = pool

    def pool(self, site: Site) -> Pool:
        return self._pool

    def environment(self, context: PrepareContext) -> Mapping[str, str]:
        return {}

    def status(self, context: PrepareContext) -> DeviceStatus | None:
        return None


def a_driver(*devices: Device, family: str = "test", **pool: Any) -> ExampleDriver:
    """The example driver, named ``FAMILY.example.com``, with these devices in a pool with these settings."""
    return ExampleDriver(FixedDevices(family, Pool(devices=devices, **pool)), DriverOptions())


def play(scene: Callable[[Actors], Awaitable[None]], *options: str, **staging: Any) -> None:
    """Play ``scene`` in virtual time; ``staging`` goes to `staged`."""

    async def main() -> None:
        async with staged(*(options or TEST), **staging) as stage:
            await scene(Actors(stage, stage.driver.name))

    run_virtual(main())
