"""Requests that were refused for want of a right: logged, counted and shown."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, failure, forbidden
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client.client import Client
from cathedra.client.denials import MOST, Denials
from cathedra.client.kubeconfig import Target
from cathedra.client.resources import CONFIGMAPS, PODS, RESOURCECLAIMS
from cathedra.client.transport import APICall, ListOptions, PatchType
from cathedra.clock import SystemClock
from cathedra.session.opening import open_transport
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded
from tests.unit.client.test_http import Recorder, serving
from tests.unit.session.serving import VIEWER, served

POD_GC = "system:serviceaccount:kube-system:pod-garbage-collector"
RIGHT = f'User "{POD_GC}" cannot update resource "pods/status" in API group ""'


def refused(right: str = RIGHT) -> StatusError:
    return forbidden(GroupResource("", "pods"), "p", f'{right} in the namespace "default"')


def test_a_missing_right_is_logged_once_and_counted_every_time(caplog: pytest.LogCaptureFixture) -> None:
    denials, registry, clock = made()
    for _ in range(3):
        denials.note(refused())
    labels = {"user": POD_GC, "verb": "update", "group": "", "resource": "pods/status"}
    assert registry.get_sample_value("cathedra_client_denied_requests_total", labels) == 3
    assert [(record.levelno, RIGHT in record.getMessage()) for record in caplog.records] == [(logging.ERROR, True)]
    clock.seconds += 5
    assert denials.lines() == [f"warning: {RIGHT}: refused 3 times, last 5 s ago"]


def test_a_missing_right_is_logged_again_and_shown_no_longer_after_ten_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    denials, _, clock = made()
    denials.note(refused())
    clock.seconds += 600
    assert denials.lines() == []
    denials.note(refused())
    assert len(caplog.records) == 2


def test_a_path_is_named_as_such() -> None:
    denials, _, _ = made()
    denials.note(failure(403, "Forbidden", 'forbidden: User "u" cannot get path "/metrics"'))
    assert denials.lines() == ['warning: User "u" cannot get path "/metrics": refused 1 times, last 0 s ago']


def test_a_refusal_of_an_admission_plugin_is_no_missing_right() -> None:
    denials, _, _ = made()
    denials.note(forbidden(GroupResource("", "pods"), "p", "exceeded quota: q, requested: pods=1, used: pods=1"))
    denials.note(failure(404, "NotFound", 'User "u" cannot get path "/x"'))
    assert not denials.counts


def test_the_number_of_rights_that_are_kept_is_bounded() -> None:
    denials, _, _ = made()
    for number in range(MOST + 10):
        denials.note(refused(f'User "u" cannot get resource "r{number}" in API group ""'))
    assert len(denials.counts) == MOST


@run_with(guarded)
async def test_a_call_in_process_is_noted_whatever_its_caller_does_with_the_error(api: Guarded) -> None:
    denials = Denials(api.clock)
    client = Client(api.server.transport_of(UserInfo(POD_GC), denials), clock=api.clock)
    with pytest.raises(StatusError):
        await client.resource(PODS, "default").patch("p", PatchType.MERGE, {})
    with pytest.raises(StatusError):
        await client.resource(CONFIGMAPS, "default").create(ConfigMap(metadata=ObjectMeta(name="c")))
    assert sorted(right[1:] for right in denials.counts) == [
        ("create", "", "configmaps"),
        ("patch", "", "pods"),
    ]


async def test_a_refusal_over_a_socket_is_noted(tmp_path: Path) -> None:
    denials = Denials(SystemClock())
    async with (
        served(tmp_path, authorization=True),
        open_transport(
            Target(f"unix://{tmp_path / 'api.sock'}", token=VIEWER), user_agent="tests", denials=denials
        ) as transport,
    ):
        with pytest.raises(StatusError):
            await transport.call(APICall("get", PODS, "default", "p"))
    assert list(denials.counts) == [("viewer", "get", "", "pods")]


async def test_a_refusal_over_http_is_noted() -> None:
    status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": str(refused())}
    async with serving(Recorder(status, 403)) as api:
        api.denials = Denials(SystemClock())
        with pytest.raises(StatusError):
            await api.call(APICall("get", PODS, "ns", "p"))
        with pytest.raises(StatusError):
            async with api.watch(APICall("watch", PODS, "ns")):
                pass
        assert api.denials.counts == {(POD_GC, "update", "", "pods/status"): 2}


async def test_a_probe_for_the_served_version_is_not_noted(tmp_path: Path) -> None:
    """A node may get claims and not list them; the list that finds out their version is refused, and means nothing."""
    denials = Denials(SystemClock())
    target = Target(f"unix://{tmp_path / 'api.sock'}", token=VIEWER)
    async with (
        served(tmp_path, authorization=True) as there,
        open_transport(target, user_agent="tests", denials=denials) as transport,
    ):
        inner = there.server.transport_of(UserInfo("viewer"), denials)
        for way in (transport, inner):
            with pytest.raises(StatusError):
                await Client(way, clock=SystemClock()).resource(RESOURCECLAIMS, "default").get("c")
    assert denials.counts == {("viewer", "get", "resource.k8s.io", "resourceclaims"): 2}


async def test_a_refused_probe_over_http_is_not_noted() -> None:
    status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": str(refused())}
    async with serving(Recorder(status, 403)) as api:
        api.denials = Denials(SystemClock())
        with pytest.raises(StatusError):
            await api.call(APICall("list", PODS, "ns", selection=ListOptions(probe=True)))
        assert not api.denials.counts


class SetClock(SystemClock):
    """A clock that stands until it is moved."""

    seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


def made() -> tuple[Denials, CollectorRegistry, SetClock]:
    clock, registry = SetClock(), CollectorRegistry()
    denials = Denials(clock)
    denials.export(registry)
    return denials, registry, clock
