"""What runs next in a pod, and what is started again (docs/spec/node.md §17.3 and §17.4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import (
    Container,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EphemeralContainer,
    Pod,
    PodSpec,
)
from cathedra.node.containers.plan import initialized, make_plan
from cathedra.node.containers.records import ContainerRecord, records_for, will_restart
from cathedra.node.runtime.runtime import ContainerRun, PodIdentity


def state(name: str, code: int | None) -> ContainerRun:
    finished = None if code is None else 5.0
    return ContainerRun(name, PodIdentity("d", "p", "u"), name, 0, 1.0, finished_at=finished, exit_code=code)


def pod(*, init: tuple[Container, ...] = (), policy: str = "Never", names: str = "ab", **spec: Any) -> Pod:
    containers = tuple(Container(name=name) for name in names)
    return Pod(spec=PodSpec(init_containers=init, containers=containers, restart_policy=policy, **spec))


def planned(of: Pod, codes: dict[str, int | None]) -> tuple[str, ...] | None:
    """What is started when these containers run (None) or have ended with a code; None: the pod has run its course."""
    records = records_for(of)
    for name, code in codes.items():
        records[name] = msgspec.structs.replace(records[name], current=state(name, code), started=code is None)
    plan = make_plan(of, tuple(records.values()), 0.0)
    return None if plan.finished else plan.start


SIDECAR = Container(name="side", restart_policy="Always")
FIRST, SECOND = Container(name="first"), Container(name="second")


@pytest.mark.parametrize(
    ("codes", "started"),
    [
        ({}, ("first",)),
        ({"first": None}, ()),
        ({"first": 1}, None),
        ({"first": 0}, ("side",)),
        ({"first": 0, "side": None}, ("second",)),
        ({"first": 0, "side": None, "second": 0}, ("a", "b")),
        ({"first": 0, "side": 1, "second": 0}, ("side",)),
        ({"first": 0, "side": None, "second": 0, "a": None, "b": 0}, ()),
        ({"first": 0, "side": 0, "second": 0, "a": None, "b": None}, ("side",)),
        ({"first": 0, "side": None, "second": 0, "a": 0, "b": 3}, None),
    ],
)
def test_init_containers_come_in_order_sidecars_stay_and_the_rest_runs_together(
    codes: dict[str, int | None], started: tuple[str, ...] | None
) -> None:
    assert planned(pod(init=(FIRST, SIDECAR, SECOND)), codes) == started


def test_a_failed_init_container_is_started_again_where_the_policy_says_so() -> None:
    assert planned(pod(init=(FIRST,), policy="OnFailure"), {"first": 1}) == ("first",)


def test_an_ephemeral_container_runs_once_and_nothing_waits_for_it() -> None:
    curious = pod(ephemeral_containers=(EphemeralContainer(name="debug", image="x", tty=True),), policy="Always")
    assert planned(curious, {"a": None, "b": None}) == ("debug",)
    assert planned(curious, {"a": None, "b": None, "debug": 1}) == ()
    finished = pod(ephemeral_containers=(EphemeralContainer(name="debug"),))
    assert planned(finished, {"a": 0, "b": 0, "debug": None}) is None
    records = tuple(records_for(curious).values())
    assert records[-1].container == Container(name="debug", image="x", tty=True)
    assert initialized(records)


@pytest.mark.parametrize(
    ("policy", "own", "code", "again"),
    [
        ("Always", None, 0, True),
        ("OnFailure", None, 0, False),
        ("OnFailure", None, 1, True),
        ("Never", None, 1, False),
        ("Never", "OnFailure", 1, True),
        ("Always", "Never", 1, False),
    ],
)
def test_a_containers_own_policy_comes_before_the_pods(policy: str, own: str | None, code: int, again: bool) -> None:
    record = ContainerRecord(Container(name="a", restart_policy=own))
    assert will_restart(pod(policy=policy), record, code) == again


@pytest.mark.parametrize(("operator", "code", "again"), [("In", 42, True), ("In", 1, False), ("NotIn", 1, True)])
def test_rules_on_exit_codes_start_again_what_the_policy_would_leave(operator: str, code: int, again: bool) -> None:
    codes = ContainerRestartRuleOnExitCodes(operator=operator, values=(42,))
    rule = ContainerRestartRule(action="Restart", exit_codes=codes)
    record = ContainerRecord(Container(name="a", restart_policy="Never", restart_policy_rules=(rule,)))
    assert will_restart(pod(policy="Never"), record, code) == again


@settings(max_examples=80)
@given(
    st.dictionaries(st.sampled_from(["first", "side", "second", "a", "b"]), st.sampled_from([None, 0, 1])),
    st.sampled_from(["Always", "OnFailure", "Never"]),
)
def test_nothing_that_runs_is_started_and_a_pod_that_goes_on_forever_never_finishes(
    codes: dict[str, int | None], policy: str
) -> None:
    started = planned(pod(init=(FIRST, SIDECAR, SECOND), policy=policy), codes)
    assert not {name for name, code in codes.items() if code is None} & set(started or ())
    if policy == "Always":
        assert started is not None
