"""APIService objects: local ones follow the served versions, others report their availability."""

from __future__ import annotations

from cathedra.api.core.apiregistration_v1 import APIService, APIServiceSpec, ServiceReference
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.bootstrap.apiservices import PROBE_SECONDS, APIServiceKeeper, Verdict
from cathedra.client.resources import resource_ref
from cathedra.client.transport import PatchType
from tests.running import beside, run_with
from tests.unit.apiserver.asgi import ASGIClient
from tests.unit.apiserver.custom.test_custom_resources import CRDS, definition
from tests.unit.apiserver.guarded import Guarded, guarded

SERVICES = resource_ref(APIService, "apiservices", namespaced=False)


async def answering(_: APIService) -> Verdict:
    return "True", "Passed", "all checks passed"


def keeper(api: Guarded) -> APIServiceKeeper:
    return APIServiceKeeper(api.server.context, api.server.catalog, answering)


async def names(api: Guarded) -> set[str]:
    return {one.metadata.name for one in (await api.admin.resource(SERVICES).list()).items}


@run_with(guarded)
async def test_every_group_and_version_has_an_object_that_is_always_available(api: Guarded) -> None:
    await keeper(api).reconcile()
    found = {one.metadata.name: one for one in (await api.admin.resource(SERVICES).list()).items}
    assert {"v1.", "v1.apps", "v1.authentication.k8s.io", "v1.resource.k8s.io", "v2.autoscaling"} <= found.keys()
    assert not [name for name in found if name.endswith("apiregistration.k8s.io")]
    core, custom = found["v1."], [one for one in found.values() if one.spec.group_priority_minimum == 1000]
    assert (core.spec.group_priority_minimum, core.spec.version_priority) == (18000, 1)
    assert core.metadata.labels == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
    assert not custom
    assert {(one.status.conditions[0].status, one.status.conditions[0].reason) for one in found.values()} == {
        ("True", "Local")
    }


@run_with(guarded)
async def test_a_second_look_writes_nothing(api: Guarded) -> None:
    await keeper(api).reconcile()
    before = api.server.revision
    await keeper(api).reconcile()
    assert api.server.revision == before


@run_with(guarded)
async def test_what_was_changed_or_deleted_is_put_right(api: Guarded) -> None:
    services = api.admin.resource(SERVICES)
    await keeper(api).reconcile()
    await services.delete("v1.apps")
    await services.patch("v1.batch", PatchType.MERGE, {"spec": {"versionPriority": 7}})
    await keeper(api).reconcile()
    assert (await services.get("v1.batch")).spec.version_priority == 15
    assert "v1.apps" in await names(api)


@run_with(guarded)
async def test_those_of_custom_resources_go_with_them(api: Guarded) -> None:
    asgi = ASGIClient(api.server)
    api.server.context.static_tokens.add({"t": UserInfo("root", ("system:masters",))})
    async with beside(keeper(api).run()):
        await asgi("POST", CRDS, definition(), user="t")
        await api.clock.sleep(1)
        found = await api.admin.resource(SERVICES).get("v1.d.x")
        assert found.metadata.labels == {"kube-aggregator.kubernetes.io/automanaged": "true"}
        assert (found.spec.group_priority_minimum, found.spec.version_priority) == (1000, 100)
        await asgi("DELETE", f"{CRDS}/gpuconfigs.d.x", user="t")
        await api.clock.sleep(1)
        assert "v1.d.x" not in await names(api)


@run_with(guarded)
async def test_a_server_behind_a_service_is_asked_again_and_again(api: Guarded) -> None:
    verdicts: list[Verdict] = [("False", "MissingEndpoints", "none"), ("True", "Passed", "all checks passed")]

    async def probe(_: APIService) -> Verdict:
        return verdicts.pop(0) if len(verdicts) > 1 else verdicts[0]

    spec = APIServiceSpec(
        group="metrics.k8s.io",
        version="v1beta1",
        group_priority_minimum=100,
        version_priority=100,
        service=ServiceReference(namespace="kube-system", name="metrics"),
    )
    services = api.admin.resource(SERVICES)
    made = await services.create(APIService(metadata=ObjectMeta(name="v1beta1.metrics.k8s.io"), spec=spec))
    assert made.spec.service is not None
    assert made.spec.service.port == 443
    asking = APIServiceKeeper(api.server.context, api.server.catalog, probe)
    await asking.reconcile()
    (condition,) = (await services.get("v1beta1.metrics.k8s.io")).status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Available", "False", "MissingEndpoints")
    async with beside(asking.run()):
        await api.clock.sleep(PROBE_SECONDS + 1)
        (condition,) = (await services.get("v1beta1.metrics.k8s.io")).status.conditions
        assert (condition.status, condition.reason) == ("True", "Passed")
