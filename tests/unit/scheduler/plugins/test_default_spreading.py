"""Pods without constraints of their own are spread from their relatives."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apps_v1 import ReplicaSet, StatefulSet
from cathedra.api.core.core_v1 import Pod, ReplicationController, Service
from cathedra.api.struct import from_dict
from cathedra.client.objects import with_metadata
from cathedra.client.resources import REPLICASETS, REPLICATIONCONTROLLERS, SERVICES, STATEFULSETS
from cathedra.scheduler.plugins.default_spreading import RelatedPods
from cathedra.semantics.owners import controller_reference
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import pod

META = {"name": "w", "namespace": "default", "uid": "u"}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
OWNERS: dict[str, Any] = {
    "replicaset": (REPLICASETS, ReplicaSet, {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}),
    "statefulset": (
        STATEFULSETS,
        StatefulSet,
        {"selector": {"matchLabels": {"app": "x"}}, "serviceName": "s", "template": TEMPLATE},
    ),
    "replicationcontroller": (
        REPLICATIONCONTROLLERS,
        ReplicationController,
        {"selector": {"app": "x"}, "template": TEMPLATE},
    ),
}


def service(name: str, **selector: str) -> Service:
    spec = {"selector": selector, "ports": [{"port": 80}]}
    return from_dict(Service, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def shown(related: RelatedPods, of: Pod) -> str:
    return str(related.selector(of))


@pytest.mark.parametrize("kind", list(OWNERS))
def test_what_controls_a_pod_selects_its_relatives(kind: str) -> None:
    async def body(api: API) -> None:
        related = RelatedPods(api.informers)
        api.follow()
        ref, type_, spec = OWNERS[kind]
        made = await api.client.resource(ref, "default").create(from_dict(type_, {"metadata": META, "spec": spec}))
        await api.until(lambda: len(api.informers.of(ref).store) == 1)
        mine = with_metadata(pod("p", labels={"app": "x"}), owner_references=(controller_reference(made),))
        assert shown(related, mine) == "app=x"
        await api.client.resource(SERVICES, "default").create(service("s", app="x", tier="web"))
        await api.client.resource(SERVICES, "default").create(service("other", app="y"))
        await api.until(lambda: len(api.informers.of(SERVICES).store) >= 2)
        both = with_metadata(mine, labels={"app": "x", "tier": "web"})
        assert {str(one) for one in getattr(related.selector(both), "requirements", ())} == {"app=x", "tier=web"}
        assert shown(related, mine) == "app=x"

    with_api(body)


def test_a_pod_without_relatives_is_spread_from_none() -> None:
    async def body(api: API) -> None:
        related = RelatedPods(api.informers)
        assert related.selector(pod("p", labels={"app": "x"})) is None

    with_api(body)
