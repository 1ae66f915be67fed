"""Whatever breaks between the choice of a node and the binding, nothing stays held and the pod is tried again."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import ContainerPort, Pod
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, conflict, forbidden
from cathedra.api.struct import replace
from cathedra.client.transport import APICall
from cathedra.scheduler import composition, profile
from cathedra.scheduler.configuration.enablement import OWN_PLUGINS
from cathedra.scheduler.framework import plugin as points
from cathedra.scheduler.framework.plugin import CycleState, Plugin
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.state.pod_info import PodInfo
from cathedra.scheduler.state.snapshot import Snapshot
from tests.running import run_with
from tests.unit.passedon import PassedOn
from tests.unit.scheduler.objects import bound_claim, claim, device_class, exactly, node, pod, slice_, volume
from tests.unit.scheduler.world import World, play

HELD = ("assumed", "nominated", "inflight", "binding", "claims_in_flight")
POINTS: Mapping[type[Plugin], tuple[str, ...]] = {
    points.PreEnqueuePlugin: ("pre_enqueue",),
    points.PreFilterPlugin: ("skips", "pre_filter"),
    points.FilterPlugin: ("predicate", "filter_batch", "filter"),
    points.PostFilterPlugin: ("post_filter",),
    points.ScorePlugin: ("node_score", "score"),
    points.ReservePlugin: ("reserve", "unreserve"),
    points.PreBindPlugin: ("pre_bind_pre_flight", "pre_bind", "has_to_settle", "settle"),
    points.BindPlugin: ("bind",),
}


def extension_points() -> Iterator[tuple[type[Plugin], str]]:
    """Every method of every plugin that the scheduler calls during a pod's life.

    NodeName filters only for pods that name their node, and those are not scheduled. Plugins that Kubernetes does not
    have are called only if a configuration names them.
    """
    found = [kind for kind in vars(composition).values() if isinstance(kind, type) and issubclass(kind, Plugin)]
    plugins = [kind for kind in found if kind.__name__ not in OWN_PLUGINS]
    for kind in plugins:
        for point, methods in POINTS.items():
            if issubclass(kind, point) and (kind, point) != (composition.NodeName, points.FilterPlugin):
                yield from ((kind, method) for method in methods)


def victim() -> Pod:
    """A pod for which every plugin is called: a claim, a host port, spreading, affinity, labels of nodes."""
    labels = {"app": "v"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    made = pod(
        "victim",
        requests={"cpu": "1"},
        labels=labels,
        resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}],
        nodeSelector={"disk": "ssd"},
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "disk", "gcePersistentDisk": {"pdName": "disk"}},
        ],
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        topologySpreadConstraints=[
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term},
            {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **term},
        ],
    )
    port = ContainerPort(container_port=80, host_port=80, protocol="TCP")
    container = replace(made.spec.containers[0], ports=(port,))
    return replace(made, spec=replace(made.spec, containers=(container,)))


ZONE = {"topology.kubernetes.io/zone": "z"}


async def scene(world: World) -> None:
    """Three nodes with one GPU each, a pod that gets one, and the victim, whose claim is of a class not there yet."""
    listed = {"name": "gpu", "firstAvailable": [{"name": "any", **exactly(class_name="late")["exactly"]}]}
    await world.create(device_class(), claim("c", listed), claim("d"), bound_claim("data"), volume("data", labels=ZONE))
    for name in ("n1", "n2", "n3"):
        await world.create(node(name, labels={"disk": "ssd"}), slice_(name, 1))
    await world.create(victim(), pod("other", resourceClaims=[{"name": "gpu", "resourceClaimName": "d"}]))


pre_filter = profile.Profile.pre_filter


def measured(self: profile.Profile, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> Status | profile.Scope:
    self._sampled_cycles = repeat(True)
    return pre_filter(self, state, pod, snapshot)


async def check_nothing_is_held(world: World) -> None:
    """All pods have their own device, and the scheduler holds nothing beyond the state of the API."""
    held = await world.quiet()
    assert {name: held[name] for name in HELD} == dict.fromkeys(HELD, 0)
    assert held["counted"] == 2
    assert len({*await world.devices("c"), *await world.devices("d")}) == 2


@pytest.mark.parametrize("defect", [ZeroDivisionError, asyncio.CancelledError])
@pytest.mark.parametrize(
    ("kind", "method"), [pytest.param(*point, id=f"{point[0].__name__}-{point[1]}") for point in extension_points()]
)
def test_a_defect_at_any_extension_point_holds_nothing_back(
    kind: type[Plugin], method: str, defect: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[str] = []
    whole: Callable[..., Any] = getattr(kind, method)

    def breaks(self: Plugin, *args: Any) -> Any:
        named = [getattr(arg, "name", "") for arg in args]
        if "victim" in named and len(raised) < 2:
            raised.append(method)
            raise defect("a defect")
        return whole(self, *args)

    async def breaks_later(self: Plugin, *args: Any) -> Any:
        return await breaks(self, *args)

    monkeypatch.setattr(kind, method, breaks_later if inspect.iscoroutinefunction(whole) else breaks)
    if method == "filter":
        # A plugin that answers for all nodes at once is not called for each.
        for method_for_many in ("predicate", "filter_batch"):
            monkeypatch.setattr(kind, method_for_many, getattr(points.FilterPlugin, method_for_many))
    if method == "pre_filter":
        # A plugin that is known to skip pods like this one is called only if it is measured.
        monkeypatch.setattr(profile.Profile, "pre_filter", measured)
    if method == "filter_batch":
        monkeypatch.setattr(kind, "predicate", points.FilterPlugin.predicate)
    if method == "score" and issubclass(kind, points.ScorePlugin):
        monkeypatch.setattr(kind, "node_score", points.ScorePlugin.node_score)
        monkeypatch.setattr(kind, "scores_zero", points.ScorePlugin.scores_zero)
        monkeypatch.setattr(kind, "zero_where", None)
    if method == "settle":
        monkeypatch.setattr(kind, "has_to_settle", lambda *_: True)
    if method == "node_score":
        monkeypatch.setattr(kind, "zero_where", None)

    async def body(world: World) -> None:
        await scene(world)
        await world.bound("other")
        await world.create(device_class("late"))
        await world.bound("victim")
        await check_nothing_is_held(world)

    # Without a failure of its binding, the second one, nothing is unreserved.
    play(
        body,
        gates={"GenericWorkload": True},
        transport=lambda inner: Faulty(inner, {1: "defect"} if method == "unreserve" else {}, "binding"),
    )
    assert raised, "the scene does not reach this point"


@run_with(play)
async def test_a_pod_that_always_breaks_does_not_keep_its_device_from_others(
    world: World, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = composition.DynamicResources.reserve

    def breaks(self: Any, state: Any, info: Any, chosen: str) -> Any:
        status = whole(self, state, info, chosen)
        if info.name == "victim":
            raise ZeroDivisionError("after the devices were taken")
        return status

    monkeypatch.setattr(composition.DynamicResources, "reserve", breaks)
    await scene(world)
    await world.bound("other")
    await world.create(device_class("late"))

    async def told() -> bool:
        return (await world.condition("victim"))[0] == "SchedulerError"

    await world.until(told)
    for name in ("third", "fourth"):
        await world.create(
            claim(f"c-{name}"), pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": f"c-{name}"}])
        )
    await world.bound("third", "fourth")
    assert (await world.condition("victim"))[1] == "ZeroDivisionError: after the devices were taken"
    assert world.scheduler.statistics()["claims_in_flight"] == 0


def test_a_binding_that_is_cancelled_gives_everything_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[str] = []
    whole = composition.DynamicResources.pre_bind

    async def cancels(self: Any, state: Any, info: Any, chosen: str) -> Any:
        if info.name == "victim" and not cancelled:
            cancelled.append(chosen)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        return await whole(self, state, info, chosen)

    monkeypatch.setattr(composition.DynamicResources, "pre_bind", cancels)

    async def body(world: World) -> None:
        await scene(world)
        await world.bound("other")
        await world.create(device_class("late"))
        await world.bound("victim")
        await check_nothing_is_held(world)

    play(body)
    assert cancelled


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_scheduler_that_stops_ends_its_bindings_without_noise(
    carried_out: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests that were sent are awaited; reservations of failed ones are released."""
    whole = composition.DefaultBinder.bind
    binding = asyncio.Event()

    async def slow(self: Any, state: Any, info: Any, chosen: str) -> Any:
        binding.set()
        await asyncio.sleep(0.5 if carried_out else 60)
        return await whole(self, state, info, chosen)

    monkeypatch.setattr(composition.DefaultBinder, "bind", slow)

    async def body(world: World) -> None:
        await world.create(node("n"), device_class(), slice_("n"), claim("c", exactly()))
        await world.create(pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]))
        await binding.wait()
        await world.stop()
        assert await world.node_of("p") == ("n" if carried_out else "")
        reserved = [consumer.name for consumer in (await world.claim("c")).status.reserved_for]
        assert reserved == (["p"] if carried_out else [])

    with caplog.at_level(logging.INFO, logger="cathedra.scheduler"):
        play(body)
    assert [record.getMessage() for record in caplog.records if record.exc_info or record.levelno > logging.INFO] == []


class Faulty(PassedOn):
    """The scheduler's way to the server, on which the writes with these numbers go wrong."""

    def __init__(self, inner: Any, faults: Mapping[int, str], subresource: str | None = None) -> None:
        self._inner = inner
        self._faults = faults
        self._subresource = subresource
        self.writes = 0

    async def call(self, call: APICall) -> Any:
        if call.verb not in ("create", "update", "patch", "delete") or call.ref.kind == "Event":
            return await self._inner.call(call)
        if self._subresource is not None and call.subresource != self._subresource:
            return await self._inner.call(call)
        fault = self._faults.get(self.writes)
        self.writes += 1
        if fault is None:
            return await self._inner.call(call)
        if fault == "answer lost":
            await self._inner.call(call)
        raise failure(fault)


def failure(fault: str) -> Exception:
    resource = GroupResource("", "things")
    found: dict[str, Exception] = {
        "forbidden": forbidden(resource, "x", "no"),
        "conflict": conflict(resource, "x", "changed"),
        "broken": StatusError(replace(conflict(resource, "x", "").status, code=500, reason="InternalError")),
        "connection lost": ConnectionError("refused"),
        "answer lost": ConnectionError("reset"),
        "defect": ZeroDivisionError("a defect"),
    }
    return found[fault]


FAULTS = ("forbidden", "conflict", "broken", "connection lost", "answer lost", "defect")


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.integers(0, 14), st.sampled_from(FAULTS), min_size=1, max_size=6))
def test_no_write_that_goes_wrong_leaves_anything_behind(faults: dict[int, str]) -> None:
    async def body(world: World) -> None:
        await scene(world)
        await world.create(device_class("late"))
        await world.bound("other", "victim")
        await check_nothing_is_held(world)

    play(body, transport=lambda inner: Faulty(inner, faults))
