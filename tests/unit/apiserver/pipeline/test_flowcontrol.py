"""Flow schemas and priority levels: the classification of requests, seats and queues, and changes of the objects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.api.core.flowcontrol_v1 import (
    FlowSchema,
    LimitedPriorityLevelConfiguration,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
)
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.bootstrap.flowcontrol import flow_control
from cathedra.apiserver.bootstrap.keeping import ObjectKeeper
from cathedra.apiserver.pipeline.flowcontrol import (
    FlowController,
    FlowCounts,
    LevelLimits,
    PriorityLevel,
    SharedSeats,
    _limits,
)
from cathedra.apiserver.requestinfo import RequestInfo, request_info
from cathedra.client.resources import resource_ref
from cathedra.client.transport import PatchType
from cathedra.clock import run_virtual
from tests.running import on_virtual_clock, run_with
from tests.unit.apiserver.asgi import ASGIClient
from tests.unit.apiserver.guarded import Guarded, guarded

SCHEMAS = resource_ref(FlowSchema, "flowschemas", namespaced=False)
LEVELS = resource_ref(PriorityLevelConfiguration, "prioritylevelconfigurations", namespaced=False)
EVERYONE = ("system:authenticated",)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"
ADMIN = UserInfo("root", ("system:masters", *EVERYONE))


async def kept(api: Guarded) -> FlowController:
    await ObjectKeeper(api.server.context, list(flow_control())).reconcile()
    return FlowController(api.server.context.registry)


async def named(api: Guarded, flow: FlowController, user: UserInfo, method: str, path: str) -> tuple[str, str]:
    """The schema that a request belongs to, and its level."""
    headers = dict(flow.classify(user, request_info(method, path)).headers)
    uids = [
        headers[name].decode() for name in (b"x-kubernetes-pf-flowschema-uid", b"x-kubernetes-pf-prioritylevel-uid")
    ]
    found: list[str] = []
    for resource, uid in zip((SCHEMAS, LEVELS), uids, strict=True):
        items: Any = (await api.admin.resource(resource).list()).items
        found.extend(one.metadata.name for one in items if one.metadata.uid == uid)
    return found[0], found[1]


@pytest.mark.parametrize(
    ("user", "method", "path", "schema", "level"),
    [
        (ADMIN, "GET", "/api/v1/pods", "exempt", "exempt"),
        (UserInfo("jane", EVERYONE), "GET", "/api/v1/pods", "global-default", "global-default"),
        (UserInfo("jane", EVERYONE), "GET", "/readyz", "probes", "exempt"),
        (UserInfo("system:anonymous", ("system:unauthenticated",)), "GET", "/livez", "probes", "exempt"),
        (
            UserInfo("system:node:n", ("system:nodes", *EVERYONE)),
            "PUT",
            "/api/v1/nodes/n/status",
            "system-node-high",
            "node-high",
        ),
        (UserInfo("system:node:n", ("system:nodes", *EVERYONE)), "GET", "/api/v1/pods", "system-nodes", "system"),
        (UserInfo("system:kube-scheduler", EVERYONE), "PUT", LEASE, "system-leader-election", "leader-election"),
        (UserInfo("system:kube-scheduler", EVERYONE), "GET", "/api/v1/pods", "kube-scheduler", "workload-high"),
        (
            UserInfo("system:serviceaccount:kube-system:x", ("system:serviceaccounts", *EVERYONE)),
            "GET",
            "/api/v1/pods",
            "kube-system-service-accounts",
            "workload-high",
        ),
        (
            UserInfo("system:serviceaccount:default:x", ("system:serviceaccounts", *EVERYONE)),
            "GET",
            "/api/v1/pods",
            "service-accounts",
            "workload-low",
        ),
    ],
)
@run_with(guarded)
async def test_requests_go_where_a_stock_cluster_sends_them(
    api: Guarded, *, user: UserInfo, method: str, path: str, schema: str, level: str
) -> None:
    assert await named(api, await kept(api), user, method, path) == (schema, level)


@run_with(guarded)
async def test_exempt_requests_wait_for_nobody_and_others_share_the_seats(api: Guarded) -> None:
    flow = await kept(api)
    assert flow.classify(ADMIN, request_info("GET", "/api/v1/pods")).level is None
    place = flow.classify(UserInfo("jane", EVERYONE), request_info("GET", "/api/v1/pods"))
    assert place.level is not None
    shape = place.level.limits
    assert (shape.own + shape.lent, shape.lent) == (49, 25)
    assert (shape.queues, shape.hand, shape.length) == (128, 6, 50)
    assert place.level.acquire()
    assert flow.taken == 1


@run_with(guarded)
async def test_flows_are_told_apart_by_user_or_namespace(api: Guarded) -> None:
    flow = await kept(api)
    jane, joe = (flow.classify(UserInfo(name, EVERYONE), request_info("GET", "/api/v1/pods")) for name in ("a", "b"))
    assert jane.level is joe.level
    assert (jane.flow, joe.flow) == ("global-default/a", "global-default/b")
    scheduler = flow.classify(
        UserInfo("system:kube-scheduler", EVERYONE), request_info("GET", "/api/v1/namespaces/n/pods")
    )
    assert scheduler.flow == "kube-scheduler/n"


@pytest.mark.parametrize(
    "others",
    [
        (UserInfo("jane", EVERYONE, uid="u"), request_info("GET", "/api/v1/namespaces/n/pods/a")),
        (UserInfo("jane", EVERYONE, extra={"a": ("b",)}), request_info("GET", "/api/v1/namespaces/n/pods/a")),
        (UserInfo("jane", EVERYONE), request_info("GET", "/api/v2/namespaces/n/pods/b")),
        (UserInfo("jane", EVERYONE), request_info("HEAD", "/api/v1/namespaces/n/pods/a")),
    ],
)
@run_with(guarded)
async def test_rules_read_nothing_of_a_request_that_is_not_in_the_key(
    api: Guarded, *, others: tuple[UserInfo, RequestInfo]
) -> None:
    """Two requests with one key have one classification, whichever came first and whatever rules read."""
    first = UserInfo("jane", EVERYONE), request_info("GET", "/api/v1/namespaces/n/pods/a")

    def everything_of(schema: object, user: UserInfo, info: RequestInfo) -> str:
        return repr((user, info))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cathedra.apiserver.pipeline.flowcontrol._Rule.flow", everything_of)
        cold = [(await kept(api)).classify(*one).flow for one in (first, others)]
        assert cold[0] == cold[1]
        path = (await kept(api)).classify(UserInfo("jane", EVERYONE), request_info("GET", "/openapi/v3")).flow
        assert "/openapi/v3" in path


@run_with(guarded)
async def test_a_change_of_the_objects_is_followed(api: Guarded) -> None:
    flow = await kept(api)
    jane = UserInfo("jane", EVERYONE)
    before = flow.classify(jane, request_info("GET", "/api/v1/pods")).level
    assert before is not None
    limits = {"spec": {"limited": {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}}}
    await api.admin.resource(LEVELS).patch("global-default", PatchType.MERGE, limits)
    place = flow.classify(jane, request_info("GET", "/api/v1/pods"))
    assert place.level is before
    assert not before.acquire()
    await api.admin.resource(LEVELS).delete("global-default")
    assert await named(api, flow, jane, "GET", "/api/v1/pods") == ("catch-all", "catch-all")
    level = flow.classify(jane, request_info("GET", "/api/v1/pods")).level
    assert level is not None
    assert level.limits.queues == 0


@pytest.mark.parametrize(("percent", "lent"), [(0, 0), (50, 3), (100, 5)])
def test_half_a_seat_is_rounded_up_as_by_go(percent: int, lent: int) -> None:
    limited = LimitedPriorityLevelConfiguration(lendable_percent=percent, borrowing_limit_percent=percent)
    spec = PriorityLevelConfigurationSpec(type="Limited", limited=limited)
    limits = _limits(PriorityLevelConfiguration(spec=spec), 5, 30)
    assert limits is not None
    assert (limits.own, limits.lent, limits.most) == (5 - lent, lent, 5 + lent)


def test_a_server_without_the_objects_lets_users_take_turns() -> None:
    flow = FlowController(seats=2)
    jane = flow.classify(UserInfo("jane"), request_info("GET", "/api/v1/pods"))
    assert jane.level is not None
    assert [jane.level.acquire() for _ in range(3)] == [True, True, False]
    assert flow.classify(ADMIN, request_info("GET", "/api/v1/pods")).level is None
    assert (flow.taken, flow.waiting, flow.rejected, jane.headers) == (2, 0, 0, ())


@run_with(guarded)
async def test_answers_show_schema_and_level(api: Guarded) -> None:
    await kept(api)
    api.server.context.static_tokens.add({"t": ADMIN})
    answer = await ASGIClient(api.server)("GET", "/api/v1/pods", user="t")
    schema = await api.admin.resource(SCHEMAS).get("exempt")
    level = await api.admin.resource(LEVELS).get("exempt")
    assert answer.header("x-kubernetes-pf-flowschema-uid") == schema.metadata.uid
    assert answer.header("x-kubernetes-pf-prioritylevel-uid") == level.metadata.uid


def test_places_of_long_paths_do_not_fill_the_memory() -> None:
    flow = FlowController()
    for number in range(2000):
        path = f"/{'x' * 60_000}{number}"
        assert flow.classify(UserInfo("jane", EVERYONE), request_info("GET", path)).flow == "jane"
        assert sum(len(text) for key in flow._known for text in key if isinstance(text, str)) <= 8 * 1024 * 1024


def level(seats: int = 1, *, queues: int = 64, hand: int = 1, length: int = 200, wait: float = 15) -> PriorityLevel:
    return PriorityLevel(LevelLimits(own=seats, queues=queues, hand=hand, length=length), wait=wait)


async def visit(place: PriorityLevel, flow: str, order: list[str]) -> None:
    """Take a seat, stay for a second, leave."""
    if not place.acquire():
        await place.queue_up(flow, FlowCounts())
    order.append(flow)
    await asyncio.sleep(1)
    place.release()


def test_flows_are_served_in_turn() -> None:
    async def scenario() -> list[str]:
        place, order = level(), list[str]()
        async with asyncio.TaskGroup() as group:
            for flow in ("alice", "alice", "alice", "alice", "bob", "bob"):
                group.create_task(visit(place, flow, order))
        assert place.taken == 0
        return order

    assert run_virtual(scenario()) == ["alice", "alice", "bob", "alice", "bob", "alice"]


@on_virtual_clock
async def test_a_full_queue_refuses_at_once_and_only_its_own_flows() -> None:
    place, order = level(length=1), list[str]()
    async with asyncio.TaskGroup() as group:
        group.create_task(visit(place, "alice", order))
        group.create_task(visit(place, "alice", order))
        await asyncio.sleep(0)
        with pytest.raises(StatusError, match="Too many requests") as refused:
            await place.queue_up("alice", FlowCounts())
        assert refused.value.code == 429
        assert refused.value.status.details is not None
        assert refused.value.status.details.retry_after_seconds == 1
        group.create_task(visit(place, "bob", order))
    assert order == ["alice", "alice", "bob"]
    assert place.rejected == 1


@on_virtual_clock
async def test_a_level_without_queues_refuses_who_finds_no_seat() -> None:
    place = level(queues=0)
    assert place.acquire()
    with pytest.raises(StatusError, match="Too many requests"):
        await place.queue_up("alice", FlowCounts())


@on_virtual_clock
async def test_a_flow_with_several_queues_waits_in_the_shortest() -> None:
    """Two queues of one place each hold two requests of a flow that was dealt both."""
    place, order = level(queues=2, hand=2, length=1), list[str]()
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(visit(place, "alice", order))
        await asyncio.sleep(0)
        assert place.waiting == 2
        with pytest.raises(StatusError):
            await place.queue_up("alice", FlowCounts())
    assert order == ["alice"] * 3


@on_virtual_clock
async def test_who_waits_too_long_is_told_to_come_again() -> None:
    place = level(wait=5)
    assert place.acquire()
    with pytest.raises(StatusError, match="Too many requests"):
        await place.queue_up("alice", FlowCounts())
    assert place.waiting == 0
    place.release()
    assert place.taken == 0


@on_virtual_clock
async def test_a_cancelled_wait_leaves_no_trace() -> None:
    place = level()
    assert place.acquire()
    waiting = asyncio.create_task(place.queue_up("alice", FlowCounts()))
    await asyncio.sleep(0)
    place.release()  # the seat is on its way to alice when she gives up
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert place.taken == 0
    assert place.acquire()


def shared(*shapes: LevelLimits) -> list[PriorityLevel]:
    levels = [PriorityLevel(shape) for shape in shapes]
    together = SharedSeats(levels)
    for one in levels:
        one.join(together)
    return levels


def test_a_level_takes_what_others_lend_and_no_more() -> None:
    low, high = shared(LevelLimits(own=1, queues=4), LevelLimits(own=2, lent=2))
    assert [low.acquire() for _ in range(4)] == [True, True, True, False]
    assert [high.acquire() for _ in range(3)] == [True, True, False]


def test_a_level_borrows_no_more_than_it_may() -> None:
    low, _ = shared(LevelLimits(own=1, most=2), LevelLimits(own=0, lent=5))
    assert [low.acquire() for _ in range(3)] == [True, True, False]


@on_virtual_clock
async def test_a_borrowed_seat_goes_back_to_who_waits_for_it() -> None:
    low, high = shared(LevelLimits(own=1, queues=4), LevelLimits(own=0, lent=1, queues=4))
    assert [low.acquire(), low.acquire(), high.acquire()] == [True, True, False]
    waiting = asyncio.create_task(high.queue_up("x", FlowCounts()))
    await asyncio.sleep(0)
    low.release()
    await waiting
    assert (low.taken, high.taken) == (1, 1)
