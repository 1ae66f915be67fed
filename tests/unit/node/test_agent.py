"""Pods and claims on a whole node, in virtual time (docs/spec/node.md §7 to §17)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import LEASES, PODS, RESOURCECLAIMS
from cathedra.clock import run_virtual
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec
from cathedra.node.runtime.simulated import EXIT_CODE, RUN_SECONDS
from tests.running import on_virtual_clock, run_with
from tests.unit.node.fakes import DRIVER, NODE, NodeTransport, Setting, make_claim, make_pod
from tests.unit.spoiled import SPOILED, SpoiledTransport


def play(body: Callable[[Setting], Awaitable[None]], transport: type[NodeTransport] = NodeTransport) -> None:
    async def main() -> None:
        async with Setting(transport()) as setting:
            await body(setting)

    run_virtual(main())


def annotated(pod: Pod, **annotations: str) -> Pod:
    names = {"seconds": RUN_SECONDS, "code": EXIT_CODE}
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations={names[key]: value for key, value in annotations.items()}),
    )


def phases(pod: Pod) -> dict[str, str]:
    return {condition.type: condition.status for condition in pod.status.conditions}


@run_with(play)
async def test_a_claim_is_prepared_before_its_pod_runs_and_let_go_before_the_pod_is_over(s: Setting) -> None:
    await s.create(make_claim("c1", "p"), annotated(make_pod(claims=["c1"]), seconds="10"))
    await asyncio.sleep(5)
    assert s.pod().status.phase == "Running"
    assert s.driver.calls == [("prepare", ("c1",))]
    (spec,) = s.runtime.specs.values()
    assert spec.cdi_devices == (f"{DRIVER}/gpu=uid-c1",)
    assert phases(s.pod())["Ready"] == "True"
    s.driver.seconds = 3
    await asyncio.sleep(6)
    assert s.pod().status.phase == "Running", "the phase stays until the claim is free"
    await asyncio.sleep(3)
    assert s.driver.calls[-1] == ("unprepare", ("c1",))
    assert s.pod().status.phase == "Succeeded"
    assert len(s.agent.claims.cache) == 0
    ended = s.pod().status.container_statuses[0].state.terminated
    assert ended is not None
    assert (ended.exit_code, ended.reason) == (0, "Completed")


@run_with(play)
async def test_a_pod_without_allocated_claim_stays_pending_and_says_why_until_it_is_allocated(s: Setting) -> None:
    claim = make_claim("c1")
    await s.create(claim, make_pod(claims=["c1"]))
    await asyncio.sleep(20)
    assert s.pod().status.phase == "Pending"
    assert s.events_of("FailedPrepareDynamicResources") == [
        "Failed to prepare dynamic resources: prepare dynamic resources: "
        "pod p (uid-p) is not allowed to use ResourceClaim c1 (uid-c1)"
    ]
    waiting = s.pod().status.container_statuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "ContainerCreating"
    assert s.driver.calls == []
    claims = s.client.resource(RESOURCECLAIMS, "default")
    now = await claims.get("c1")
    await claims.update(replace(now, status=make_claim("c1", "p").status))
    await asyncio.sleep(90)
    assert s.pod().status.phase == "Running"


@run_with(play)
async def test_deleting_a_running_pod_ends_it_frees_its_claim_and_removes_the_object(s: Setting) -> None:
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"], restart_policy="Always"))
    await asyncio.sleep(1)
    await s.client.resource(PODS, "default").delete("p")
    await asyncio.sleep(1)
    assert not s.has_pod()
    assert s.driver.calls == [("prepare", ("c1",)), ("unprepare", ("c1",))]
    assert s.events_of("Killing") == ["Stopping container c"]
    assert s.runtime.specs == {}


@run_with(play)
async def test_a_container_that_ignores_the_signal_is_killed_after_the_grace_period(s: Setting) -> None:
    from cathedra.node.runtime.simulated import Act

    s.runtime._behaviour = lambda spec: Act(stop_seconds=1000)
    await s.create(make_pod(termination_grace_period_seconds=7))
    await asyncio.sleep(1)
    await s.client.resource(PODS, "default").delete("p")
    await asyncio.sleep(6)
    assert s.has_pod()
    await asyncio.sleep(2)
    assert not s.has_pod()


@run_with(play)
async def test_a_pod_stays_terminating_while_a_driver_does_not_let_go(s: Setting) -> None:
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"]))
    await asyncio.sleep(1)
    s.driver.failures = ["busy", "busy"]
    await s.client.resource(PODS, "default").delete("p")
    await asyncio.sleep(9)
    assert s.has_pod()
    await asyncio.sleep(40)
    assert not s.has_pod()
    assert [verb for verb, _ in s.driver.calls] == ["prepare", "unprepare", "unprepare", "unprepare"]


@run_with(play)
async def test_a_pod_that_waits_for_its_driver_goes_as_soon_as_the_driver_is_back(s: Setting) -> None:
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"]))
    await asyncio.sleep(1)
    instance = s.agent.registry.remove(DRIVER, "in-process")
    assert instance is not None
    await s.client.resource(PODS, "default").delete("p")
    await asyncio.sleep(2)
    assert s.has_pod()
    s.agent.registry.add(instance)
    await asyncio.sleep(1)
    assert not s.has_pod()


@run_with(play)
async def test_a_driver_in_the_process_that_hangs_delays_its_pod_and_is_called_again(s: Setting) -> None:
    s.driver.seconds = 3600
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"]))
    await asyncio.sleep(46)
    assert "DeadlineExceeded" in s.events_of("FailedPrepareDynamicResources")[0]
    s.driver.seconds = 0
    await asyncio.sleep(120)
    assert [verb for verb, _ in s.driver.calls] == ["prepare", "prepare"]
    assert len(s.runtime.specs) == 1


@run_with(play)
async def test_two_pods_share_a_claim_that_is_prepared_once_and_let_go_by_the_last(s: Setting) -> None:
    await s.create(make_claim("c1", "p", "q"), make_pod("p", claims=["c1"]))
    await asyncio.sleep(1)
    await s.create(make_pod("q", claims=["c1"]))
    await asyncio.sleep(1)
    assert [spec.cdi_devices for spec in s.runtime.specs.values()] == [(f"{DRIVER}/gpu=uid-c1",)] * 2
    await s.client.resource(PODS, "default").delete("p")
    await asyncio.sleep(1)
    assert s.driver.calls == [("prepare", ("c1",))]
    await s.client.resource(PODS, "default").delete("q")
    await asyncio.sleep(1)
    assert s.driver.calls == [("prepare", ("c1",)), ("unprepare", ("c1",))]


@run_with(play)
async def test_a_failing_driver_is_asked_again_and_reported(s: Setting) -> None:
    s.driver.failures = ["not yet"]
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"]))
    await asyncio.sleep(4)
    assert s.driver.calls == [("prepare", ("c1",))], "its own status is no reason to try again"
    assert s.events_of("FailedPrepareDynamicResources") == [
        "Failed to prepare dynamic resources: prepare dynamic resources: "
        "NodePrepareResources: rpc error: code = Unavailable desc = not yet"
    ]
    await asyncio.sleep(60)
    assert s.pod().status.phase == "Running"


@run_with(play)
async def test_an_unknown_driver_blocks_the_pod_which_can_still_be_deleted_at_once(s: Setting) -> None:
    await s.create(make_claim("c1", "p", driver="other.example.com"), make_pod(claims=["c1"]))
    await asyncio.sleep(1)
    assert "DRA driver other.example.com is not registered" in s.events_of("FailedPrepareDynamicResources")[0]
    await s.client.resource(PODS, "default").delete("p")
    await asyncio.sleep(1)
    assert not s.has_pod()
    assert s.driver.calls == []


@run_with(play)
async def test_a_force_deleted_pod_is_ended_and_its_claim_freed(s: Setting) -> None:
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"]))
    await asyncio.sleep(1)
    await s.client.resource(PODS, "default").delete("p", grace_period_seconds=0)
    await asyncio.sleep(60)
    assert s.driver.calls == [("prepare", ("c1",)), ("unprepare", ("c1",))]
    assert s.runtime.specs == {}


@run_with(play)
async def test_a_crashing_container_is_restarted_at_once_and_then_with_growing_pauses(s: Setting) -> None:
    pod = annotated(make_pod(restart_policy="Always"), seconds="1", code="3")
    await s.create(pod)
    await asyncio.sleep(1.5)
    assert s.pod().status.container_statuses[0].restart_count == 1, "the first restart does not wait"
    await asyncio.sleep(1)
    status = s.pod().status.container_statuses[0]
    assert status.state.waiting is not None
    assert status.state.waiting.reason == "CrashLoopBackOff"
    assert status.state.waiting.message.startswith("back-off 10s restarting failed container=c pod=p_default(uid-p)")
    assert status.last_state.terminated is not None
    assert status.last_state.terminated.exit_code == 3
    assert s.pod().status.phase == "Running"
    await asyncio.sleep(10)
    assert s.pod().status.container_statuses[0].restart_count == 2
    await asyncio.sleep(3600)
    assert 12 <= s.pod().status.container_statuses[0].restart_count <= 17


@run_with(play)
async def test_pods_and_containers_are_counted_under_the_kubelets_names(s: Setting) -> None:
    def shown() -> dict[str, float]:
        lines = s.agent.metrics.text().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    await s.create(annotated(make_pod("long"), seconds="100"), annotated(make_pod("short"), seconds="2"))
    await s.create(make_pod("waits", claims=["absent"]))
    await asyncio.sleep(1)
    begun = shown()
    assert begun["kubelet_running_pods"] == begun['kubelet_running_containers{container_state="running"}'] == 2
    await asyncio.sleep(4)
    found = shown()
    assert found[f'kubelet_node_name{{node="{NODE}"}}'] == 1
    assert (found['kubelet_desired_pods{static=""}'], found['kubelet_active_pods{static=""}']) == (3, 2)
    assert begun["kubelet_running_pods"] - found["kubelet_running_pods"] == 1
    assert found['kubelet_running_containers{container_state="exited"}'] == 1
    assert found["kubelet_started_pods_total"] == 3
    assert found['kubelet_started_containers_total{container_type="container"}'] == 2
    assert found["kubelet_pod_start_duration_seconds_count"] == 2


@run_with(play)
async def test_on_failure_restarts_only_failures_and_never_restarts_nothing(s: Setting) -> None:
    await s.create(annotated(make_pod("never", restart_policy="Never"), seconds="1", code="2"))
    await s.create(annotated(make_pod("good", restart_policy="OnFailure"), seconds="1"))
    await s.create(annotated(make_pod("bad", restart_policy="OnFailure"), seconds="1", code="2"))
    await asyncio.sleep(5)
    assert (s.pod("never").status.phase, s.pod("good").status.phase) == ("Failed", "Succeeded")
    assert s.pod("bad").status.container_statuses[0].restart_count == 1
    assert s.pod("bad").status.phase == "Running"


@run_with(play)
async def test_init_containers_run_one_after_the_other_and_sidecars_stay_until_the_end(s: Setting) -> None:
    from cathedra.node.runtime.simulated import Act

    times = {"first": Act(2), "side": Act(), "second": Act(3), "main": Act(4)}
    s.runtime._behaviour = lambda spec: times[spec.name]
    inits = (
        Container(name="first", command=("x",)),
        Container(name="side", command=("x",), restart_policy="Always"),
        Container(name="second", command=("x",)),
    )
    await s.create(make_pod("p", Container(name="main", command=("x",)), init_containers=inits))

    def running() -> set[str]:
        every = (*s.pod().status.init_container_statuses, *s.pod().status.container_statuses)
        return {status.name for status in every if status.state.running}

    await asyncio.sleep(1)
    assert running() == {"first"}
    waiting = s.pod().status.container_statuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "PodInitializing"
    await asyncio.sleep(2)
    assert running() == {"side", "second"}
    assert s.pod().status.phase == "Pending"
    await asyncio.sleep(3)
    assert running() == {"side", "main"}
    assert s.pod().status.phase == "Running"
    await asyncio.sleep(5)
    assert running() == set()
    assert s.pod().status.phase == "Succeeded"


@run_with(play)
async def test_a_failed_init_container_fails_a_pod_that_is_never_restarted(s: Setting) -> None:
    pod = make_pod("p", init_containers=(Container(name="i", command=("x",)),))
    await s.create(annotated(pod, seconds="1", code="1"))
    await asyncio.sleep(3)
    assert s.pod().status.phase == "Failed"


@run_with(play)
async def test_a_deadline_fails_the_pod(s: Setting) -> None:
    await s.create(make_pod(active_deadline_seconds=30))
    await asyncio.sleep(29)
    assert s.pod().status.phase == "Running"
    await asyncio.sleep(5)
    assert (s.pod().status.phase, s.pod().status.reason) == ("Failed", "DeadlineExceeded")


@run_with(play)
async def test_a_missing_config_map_keeps_the_container_waiting_and_says_so(s: Setting) -> None:
    from cathedra.api.core.core_v1 import ConfigMapEnvSource, EnvFromSource

    source = EnvFromSource(config_map_ref=ConfigMapEnvSource(name="settings"))
    await s.create(make_pod("p", Container(name="c", command=("x",), env_from=(source,))))
    await asyncio.sleep(1)
    waiting = s.pod().status.container_statuses[0].state.waiting
    assert waiting is not None
    assert (waiting.reason, waiting.message) == ("CreateContainerConfigError", 'configmap "settings" not found')


@on_virtual_clock
async def test_a_crashed_agent_takes_up_running_pods_and_prepares_nothing_again() -> None:
    s = Setting()
    s.config = replace_config(s)
    s.agent = s.make_agent()
    s.task = asyncio.ensure_future(s.agent.run())
    await s.create(make_claim("c1", "p"), annotated(make_pod(claims=["c1"]), seconds="100"))
    await asyncio.sleep(10)
    store = s.agent.claims._store
    await s.stop()
    s.agent = s.make_agent(checkpoint=store)
    s.task = asyncio.ensure_future(s.agent.run())
    await asyncio.sleep(10)
    assert s.driver.calls == [("prepare", ("c1",))]
    assert len(s.runtime.specs) == 1
    assert s.pod().status.phase == "Running"
    await asyncio.sleep(100)
    assert s.pod().status.phase == "Succeeded"
    assert s.driver.calls == [("prepare", ("c1",)), ("unprepare", ("c1",))]
    await s.stop()


def replace_config(setting: Setting) -> object:
    from msgspec.structs import replace as with_changes

    return with_changes(setting.config, stop_containers=False)


@on_virtual_clock
async def test_a_pod_made_while_no_agent_ran_is_run_by_the_next_to_its_end() -> None:
    """N4 of docs/spec/driver-sdk.md §20."""
    async with Setting() as s:
        await asyncio.sleep(1)
        await s.stop()
        await s.create(make_claim("c1", "p"), annotated(make_pod(claims=["c1"]), seconds="10"))
        await asyncio.sleep(60)
        assert s.pod().status.phase in {"", "Pending"}
        assert s.driver.calls == []
        s.agent = s.make_agent()
        s.task = asyncio.ensure_future(s.agent.run())
        await asyncio.sleep(30)
        assert s.pod().status.phase == "Succeeded"
        assert s.driver.calls == [("prepare", ("c1",)), ("unprepare", ("c1",))]


@on_virtual_clock
async def test_a_pod_that_vanished_while_the_agent_was_down_is_let_go_and_its_containers_end() -> None:
    s = Setting()
    s.config = replace_config(s)
    s.agent = s.make_agent()
    s.task = asyncio.ensure_future(s.agent.run())
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"]))
    await asyncio.sleep(10)
    store = s.agent.claims._store
    await s.stop()
    await s.client.resource(PODS, "default").delete("p", grace_period_seconds=0)
    s.agent = s.make_agent(checkpoint=store)
    s.task = asyncio.ensure_future(s.agent.run())
    await asyncio.sleep(70)
    assert s.driver.calls == [("prepare", ("c1",)), ("unprepare", ("c1",))]
    assert s.runtime.specs == {}
    await s.stop()


@run_with(play)
async def test_the_node_registers_with_lease_and_ready_condition(s: Setting) -> None:
    await s.agent.wait_ready()
    await asyncio.sleep(25)
    node = s.server.objects["nodes", "", NODE]
    assert {c.type: c.status for c in node.status.conditions}["Ready"] == "True"  # type: ignore[attr-defined]
    assert node.metadata.labels["kubernetes.io/hostname"] == NODE  # type: ignore[attr-defined]
    lease = s.server.objects["leases", "kube-node-lease", NODE]
    renewed = lease.spec.renew_time.timestamp  # type: ignore[attr-defined]
    assert s.clock.now() - renewed < 10


@run_with(play)
async def test_the_lease_is_read_once_and_again_after_another_client_has_changed_it(s: Setting) -> None:
    leases = s.client.resource(LEASES, "kube-node-lease")

    def reads() -> int:
        return sum(request[:2] == ("get", "leases") for request in s.server.requests)

    await s.agent.wait_ready()
    await asyncio.sleep(63)  # between two renewals
    first = reads()
    await asyncio.sleep(60)
    assert reads() == first <= 1
    lease = await leases.get(NODE)
    await leases.update(replace(lease, metadata=replace(lease.metadata, labels={"a": "b"})))
    await asyncio.sleep(25)
    lease = await leases.get(NODE)
    assert lease.metadata.labels == {"a": "b"}
    assert lease.spec.renew_time is not None
    assert s.clock.now() - lease.spec.renew_time.timestamp < 11
    await leases.delete(NODE)
    await asyncio.sleep(11)
    assert (await leases.get(NODE)).spec.holder_identity == NODE


@run_with(play)
async def test_metrics_count_claims_in_use_and_operations(s: Setting) -> None:
    await s.create(make_claim("c1", "p"), make_pod(claims=["c1"]))
    await asyncio.sleep(1)
    text = s.agent.metrics.text().decode()
    assert 'dra_resource_claims_in_use{driver_name="<any>"} 1' in text
    assert f'dra_resource_claims_in_use{{driver_name="{DRIVER}"}} 1' in text
    assert 'dra_operations_duration_seconds_count{is_error="false",operation_name="PrepareResources"} 1' in text


@run_with(play)
async def test_a_pod_of_another_node_is_left_alone(s: Setting) -> None:
    pod = make_pod()
    other = replace(pod, spec=replace(pod.spec, node_name="n2"))
    await s.create(replace(other, metadata=ObjectMeta(name="p", namespace="default", uid="u")))
    await asyncio.sleep(5)
    assert s.pod().status.phase == ""


@run_with(play)
async def test_a_container_that_ends_before_its_start_is_answered_is_not_lost(s: Setting) -> None:
    start = s.runtime.start

    async def slow_answer(spec: ContainerSpec) -> ContainerRun:
        state = await start(spec)
        await asyncio.sleep(5)
        return state

    s.runtime.start = slow_answer  # type: ignore[method-assign]
    await s.create(annotated(make_pod(), seconds="1"))
    await asyncio.sleep(10)
    assert s.pod().status.phase == "Succeeded"


@on_virtual_clock
async def test_a_container_that_is_gone_when_the_agent_comes_back_ended_by_then() -> None:
    s = Setting()
    s.agent = s.make_agent()
    s.task = asyncio.ensure_future(s.agent.run())
    await s.create(annotated(make_pod(restart_policy="Always"), seconds="1000"))
    await asyncio.sleep(10)
    await s.stop()
    await asyncio.sleep(100)
    back = s.clock.now()
    s.agent = s.make_agent()
    s.task = asyncio.ensure_future(s.agent.run())
    await asyncio.sleep(10)
    ended = s.pod().status.container_statuses[0].last_state.terminated
    assert ended is not None
    assert (ended.reason, ended.exit_code) == ("ContainerStatusUnknown", 137)
    assert ended.finished_at is not None
    assert ended.finished_at.timestamp >= back
    await s.stop()


@run_with(play)
async def test_a_simulated_act_that_makes_no_sense_is_told_on_the_pod(s: Setting) -> None:
    for name, seconds, code in (("a", "abc", "0"), ("b", "nan", "0"), ("c", "1", "x"), ("d", "1", "256")):
        await s.create(annotated(make_pod(name), seconds=seconds, code=code))
    await asyncio.sleep(3)
    for name in "abcd":
        waiting = s.pod(name).status.container_statuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "CreateContainerConfigError"
        assert "annotation simulated.cathedra.dev/" in waiting.message


@on_virtual_clock
async def test_pods_that_cannot_be_decoded_end_neither_the_agent_nor_what_runs() -> None:
    """Whether they are there when it starts, come later, or have run before; and one of them is deleted in order."""
    s = Setting()
    spoiled = Client(SpoiledTransport(s.server), clock=s.clock)
    s.client, plain = spoiled, s.client
    s.agent = s.make_agent()
    pods = plain.resource(PODS, "default")
    await pods.create(odd(make_pod("before")))
    async with s:
        await s.create(make_claim("c1", "p"), make_pod(claims=["c1"], restart_policy="Always"))
        await asyncio.sleep(5)
        await pods.create(odd(make_pod("after")))
        await s.create(make_pod("plain"))
        await pods.update(odd(s.pod()))
        await asyncio.sleep(120)
        assert s.pod("plain").status.phase == "Running"
        assert s.driver.calls == [("prepare", ("c1",))], "the claim of a pod that ran before is held"
        assert s.pod().status.phase == "Running"
        assert s.agent.metrics.text().count(b'cathedra_undecodable_objects_total{kind="Pod",resource="pods"}') == 1
        await pods.delete("p")
        await asyncio.sleep(60)
        assert not s.has_pod()
        assert s.driver.calls[-1] == ("unprepare", ("c1",))
        mended = s.pod("after")
        await pods.update(replace(mended, metadata=replace(mended.metadata, annotations={})))
        await asyncio.sleep(10)
        assert s.pod("after").status.phase == "Running"
        assert s.pod("before").status.phase == ""


def odd(pod: Pod) -> Pod:
    """A pod that the agent cannot decode."""
    return replace(pod, metadata=replace(pod.metadata, annotations={SPOILED: "spec.new"}))
