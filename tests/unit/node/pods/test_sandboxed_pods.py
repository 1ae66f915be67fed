"""A pod in a runtime with sandboxes and images, from its arrival to its end, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.api.struct import replace
from cathedra.client.resources import PODS
from cathedra.node.runtime.runtime import (
    Image,
    ImageFailure,
    PodIdentity,
    PortConnection,
    RegistryLogin,
    RunningSandbox,
    RuntimeFailure,
    SandboxSpec,
)
from cathedra.node.runtime.simulated import RUN_SECONDS
from tests.running import run_with
from tests.unit.node.fakes import Setting, make_claim, make_pod
from tests.unit.node.test_agent import play

ADDRESS = "10.1.2.3"


class Sandboxes:
    """Fake sandboxes; their calls are recorded in ``calls``, with the driver's."""

    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls
        self.failures: list[str] = []
        self.id = "s1"
        self.left: tuple[PodIdentity, ...] = ()

    async def run(self, spec: SandboxSpec) -> RunningSandbox:
        if self.failures:
            raise RuntimeFailure("FailedCreatePodSandBox", self.failures.pop(0))
        if ("run", self.id) not in self.calls:
            self.calls.append(("run", self.id))
        return RunningSandbox(self.id, ADDRESS)

    async def stop(self, pod_uid: str) -> None:
        if self.failures:
            raise RuntimeFailure("FailedKillPod", self.failures.pop(0))
        self.calls.append(("stop", pod_uid))

    async def remove(self, pod_uid: str) -> None:
        self.calls.append(("remove", pod_uid))

    async def pods(self) -> tuple[PodIdentity, ...]:
        return self.left

    async def connect(self, pod_uid: str, port: int) -> PortConnection:
        raise ConnectionRefusedError


class Images:
    """One image that can be pulled, after some failures."""

    def __init__(self, *problems: str) -> None:
        self.problems = list(problems)
        self.there: set[str] = set()

    async def find(self, image: str) -> Image | None:
        return Image("sha256:1", 7) if image in self.there else None

    async def pull(self, image: str, login: RegistryLogin | None) -> None:
        if self.problems:
            raise ImageFailure(self.problems.pop(0))
        self.there.add(image)


def equipped(s: Setting, *problems: str) -> Sandboxes:
    """Give the node's runtime sandboxes and images."""
    sandboxes = Sandboxes(s.driver.calls)
    runtime: Any = s.runtime
    runtime.sandboxes, runtime.images = sandboxes, Images(*problems)
    return sandboxes


def short_pod(*, claims: tuple[str, ...] = ()) -> Pod:
    pod = make_pod("p", Container(name="c", image="tools", image_pull_policy="IfNotPresent"), claims=claims)
    return replace(pod, metadata=replace(pod.metadata, annotations={RUN_SECONDS: "10"}))


@run_with(play)
async def test_a_sandbox_is_made_after_the_claims_are_prepared_and_stopped_before_they_are_let_go(s: Setting) -> None:
    equipped(s)
    await s.create(make_claim("c1", "p"), short_pod(claims=("c1",)))
    await asyncio.sleep(5)
    assert (s.pod().status.phase, s.pod().status.pod_ip) == ("Running", ADDRESS)
    await asyncio.sleep(10)
    assert s.driver.calls == [
        ("prepare", ("c1",)),
        ("run", "s1"),
        ("stop", "uid-p"),
        ("unprepare", ("c1",)),
        ("remove", "uid-p"),
    ]


@run_with(play)
async def test_a_sandbox_that_cannot_be_made_or_stopped_is_tried_again_and_told(s: Setting) -> None:
    sandboxes = equipped(s)
    sandboxes.failures = ["Failed to create pod sandbox: no pause image"]
    await s.create(short_pod())
    await asyncio.sleep(1)
    assert s.events_of("FailedCreatePodSandBox") == ["Failed to create pod sandbox: no pause image"]
    assert s.pod().status.phase == "Pending"
    await asyncio.sleep(2)
    assert s.pod().status.phase == "Running"
    sandboxes.failures = ["stuck"]
    await asyncio.sleep(15)
    assert s.events_of("FailedKillPod") == ["error killing pod: stuck"]
    assert s.pod().status.phase == "Succeeded"


@run_with(play)
async def test_an_image_is_pulled_with_back_off_and_named_in_the_status(s: Setting) -> None:
    equipped(s, "rpc error: code = Unknown desc = no such host")
    await s.create(short_pod())

    def waiting() -> str:
        state = s.pod().status.container_statuses[0].state
        return state.waiting.reason if state.waiting is not None else ""

    await asyncio.sleep(0.5)
    assert waiting() == "ErrImagePull"
    await asyncio.sleep(2)
    assert waiting() == "ImagePullBackOff"
    assert s.events_of("Failed") == [
        'Failed to pull image "tools:latest": rpc error: code = Unknown desc = no such host',
        "Error: ErrImagePull",
        "Error: ImagePullBackOff",
    ]
    assert s.events_of("BackOff") == ['Back-off pulling image "tools:latest"']
    await asyncio.sleep(10)
    assert s.pod().status.phase == "Running"
    [spec] = s.runtime.specs.values()
    assert (spec.image, spec.image_id) == ("tools:latest", "sha256:1")
    assert len(s.events_of("Pulled")) == 1


@run_with(play)
async def test_a_container_that_starts_again_gets_another_sandbox_where_the_first_has_ended(s: Setting) -> None:
    sandboxes = equipped(s)
    pod = short_pod()
    await s.create(replace(pod, spec=replace(pod.spec, restart_policy="Always")))
    await asyncio.sleep(5)
    sandboxes.id = "s2"
    await asyncio.sleep(10)
    assert s.events_of("SandboxChanged") == ["Pod sandbox changed, it will be killed and re-created."]
    assert ("run", "s2") in s.driver.calls
    await s.client.resource(PODS, "default").delete("p")


@run_with(play)
async def test_sandboxes_of_pods_that_are_no_more_are_removed(s: Setting) -> None:
    sandboxes = equipped(s)
    sandboxes.left = (PodIdentity("default", "gone", "uid-gone"),)
    await s.stop()
    s.agent = s.make_agent()
    await s.__aenter__()
    await asyncio.sleep(1)
    assert ("remove", "uid-gone") in s.driver.calls
