"""The limits of a namespace: defaults for containers, and what is refused."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import (
    Container,
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    PodSpec,
    ResourceRequirements,
    VolumeResourceRequirements,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.apiserver.admission.limitranger import ANNOTATION
from cathedra.client.resources import LIMITRANGES, PERSISTENTVOLUMECLAIMS, PODS
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, refused


def amounts(**stated: str) -> dict[str, Quantity]:
    return {name: Quantity(amount) for name, amount in stated.items()}


async def limit(api: Guarded, item: LimitRangeItem, name: str = "limits") -> None:
    limits = LimitRange(metadata=ObjectMeta(name=name), spec=LimitRangeSpec(limits=(item,)))
    await api.admin.resource(LIMITRANGES, "default").create(limits)


def pod(requests: dict[str, Quantity] | None = None, limits: dict[str, Quantity] | None = None) -> Pod:
    resources = ResourceRequirements(requests=requests or {}, limits=limits or {})
    container = Container(name="c", image="i", resources=resources)
    return Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(container,)))


@run_with(guarded)
async def test_containers_get_what_they_left_out_and_the_pod_says_so(api: Guarded) -> None:
    await limit(
        api,
        LimitRangeItem(
            type="Container",
            default=amounts(cpu="500m", memory="1Gi"),
            default_request=amounts(cpu="100m", memory="64Mi"),
        ),
    )
    wanted = pod(amounts(cpu="200m"))
    first = Container(name="first", image="i")
    wanted = replace(wanted, spec=replace(wanted.spec, init_containers=(first,)))
    made = await api.admin.resource(PODS, "default").create(wanted)
    assert made.spec.containers[0].resources == ResourceRequirements(
        requests=amounts(cpu="200m", memory="64Mi"), limits=amounts(cpu="500m", memory="1Gi")
    )
    assert made.metadata.annotations[ANNOTATION] == (
        "LimitRanger plugin set: memory request for container c; cpu, memory limit for container c; "
        "cpu, memory request for init container first; cpu, memory limit for init container first"
    )
    assert made.status.qos_class == "Burstable"


@run_with(guarded)
async def test_a_pod_that_says_everything_is_left_alone(api: Guarded) -> None:
    await limit(api, LimitRangeItem(type="Container", default=amounts(cpu="1")))
    made = await api.admin.resource(PODS, "default").create(pod(amounts(cpu="1"), amounts(cpu="1")))
    assert ANNOTATION not in made.metadata.annotations


@pytest.mark.parametrize(
    ("item", "wanted", "why"),
    [
        (
            LimitRangeItem(type="Container", min=amounts(cpu="100m")),
            pod(amounts(cpu="50m"), amounts(cpu="50m")),
            "minimum cpu usage per Container is 100m, but request is 50m",
        ),
        (
            LimitRangeItem(type="Container", max=amounts(memory="1Gi")),
            pod(amounts(memory="1Gi"), amounts(memory="2Gi")),
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        (
            LimitRangeItem(type="Pod", min=amounts(cpu="1")),
            pod(),
            "minimum cpu usage per Pod is 1.  No request is specified",
        ),
        (
            LimitRangeItem(type="Pod", max=amounts(cpu="1", memory="1Gi")),
            pod(),
            "[maximum cpu usage per Pod is 1.  No limit is specified, "
            "maximum memory usage per Pod is 1Gi.  No limit is specified]",
        ),
        (
            LimitRangeItem(type="Container", max_limit_request_ratio=amounts(cpu="2")),
            pod(amounts(cpu="100m"), amounts(cpu="300m")),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            LimitRangeItem(type="Container", max_limit_request_ratio=amounts(cpu="2")),
            pod(),
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
    ],
)
@run_with(guarded)
async def test_amounts_out_of_bounds_are_refused_in_kubernetes_words(
    api: Guarded, *, item: LimitRangeItem, wanted: Pod, why: str
) -> None:
    await limit(api, item)
    assert await refused(api.admin.resource(PODS, "default").create(wanted)) == f'pods "p" is forbidden: {why}'


@run_with(guarded)
async def test_bounds_that_come_later_do_not_hold_pods_that_are_there(api: Guarded) -> None:
    pods = api.admin.resource(PODS, "default")
    made = await pods.create(pod())
    await limit(api, LimitRangeItem(type="Pod", min=amounts(cpu="1")))
    labelled = replace(made, metadata=replace(made.metadata, labels={"a": "b"}))
    assert (await pods.update(labelled)).metadata.labels == {"a": "b"}


async def resize(api: Guarded, cpu: str) -> Pod:
    pods = api.admin.resource(PODS, "default")
    made = await pods.get("p")
    resources = replace(made.spec.containers[0].resources, limits=amounts(cpu=cpu, memory="1Gi"))
    container = replace(made.spec.containers[0], resources=resources)
    return await pods.update(replace(made, spec=replace(made.spec, containers=(container,))), subresource="resize")


STATED = pod(amounts(cpu="100m", memory="64Mi"), amounts(cpu="1", memory="1Gi"))


@pytest.mark.parametrize("kind", ["Container", "Pod"])
@run_with(guarded)
async def test_a_pod_is_resized_within_bounds(api: Guarded, *, kind: str) -> None:
    await api.admin.resource(PODS, "default").create(STATED)
    await limit(api, LimitRangeItem(type=kind, max=amounts(cpu="2")))
    assert (await resize(api, "2")).spec.containers[0].resources.limits["cpu"] == Quantity("2")
    assert await refused(resize(api, "3")) == (
        f'pods "p" is forbidden: maximum cpu usage per {kind} is 2, but limit is 3'
    )


@pytest.mark.parametrize("kind", ["Container", "Pod"])
@pytest.mark.parametrize(("release", "resized"), [("1.37", False), ("1.38", True)])
def test_the_resize_of_a_pod_may_keep_what_later_bounds_forbid(release: str, resized: bool, kind: str) -> None:
    """kubernetes/kubernetes#142171."""

    async def body(api: Guarded) -> None:
        await api.admin.resource(PODS, "default").create(STATED)
        await limit(api, LimitRangeItem(type=kind, max=amounts(memory="512Mi")))
        if resized:
            assert (await resize(api, "2")).spec.containers[0].resources.limits["cpu"] == Quantity("2")
        else:
            text = f'pods "p" is forbidden: maximum memory usage per {kind} is 512Mi, but limit is 1Gi'
            assert await refused(resize(api, "2")) == text

    guarded(body, release=release)


@pytest.mark.parametrize(
    ("item", "wanted", "why"),
    [
        (
            LimitRangeItem(type="Container", min=amounts(cpu="1")),
            pod(amounts(cpu="0.9999"), amounts(cpu="1")),
            "minimum cpu usage per Container is 1, but request is 999900u",
        ),
        (
            LimitRangeItem(type="Container", max=amounts(memory="7Ei")),
            pod(amounts(memory="9E"), amounts(memory="10E")),
            "maximum memory usage per Container is 7Ei, but limit is 10E",
        ),
        (
            LimitRangeItem(type="Container", max_limit_request_ratio=amounts(memory="1")),
            pod(amounts(memory="10E"), amounts(memory="10E")),
            "",
        ),
    ],
)
@run_with(lambda test: guarded(test, release="1.38"))
async def test_amounts_are_compared_exactly(api: Guarded, *, item: LimitRangeItem, wanted: Pod, why: str) -> None:
    """kubernetes/kubernetes#141348."""
    await limit(api, item)
    creation = api.admin.resource(PODS, "default").create(wanted)
    if why:
        assert await refused(creation) == f'pods "p" is forbidden: {why}'
    else:
        await creation


@pytest.mark.parametrize(("release", "updated"), [("1.37", False), ("1.38", True)])
def test_the_update_of_a_volume_claim_may_keep_what_later_bounds_forbid(release: str, updated: bool) -> None:
    """kubernetes/kubernetes#142170."""

    async def body(api: Guarded) -> None:
        claims = api.admin.resource(PERSISTENTVOLUMECLAIMS, "default")
        resources = VolumeResourceRequirements(requests=amounts(storage="9Gi"))
        spec = PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), resources=resources)
        made = await claims.create(PersistentVolumeClaim(metadata=ObjectMeta(name="v"), spec=spec))
        await limit(api, LimitRangeItem(type="PersistentVolumeClaim", max=amounts(storage="8Gi")))
        labelled = replace(made, metadata=replace(made.metadata, labels={"a": "b"}))
        if updated:
            assert (await claims.update(labelled)).metadata.labels == {"a": "b"}
        else:
            text = "maximum storage usage per PersistentVolumeClaim is 8Gi, but request is 9Gi"
            assert await refused(claims.update(labelled)) == f'persistentvolumeclaims "v" is forbidden: {text}'

    guarded(body, release=release)


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ("1Gi", "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"),
        ("9Gi", "maximum storage usage per PersistentVolumeClaim is 8Gi, but request is 9Gi"),
        ("4Gi", ""),
    ],
)
@run_with(guarded)
async def test_claims_for_volumes_have_bounds(api: Guarded, *, size: str, why: str) -> None:
    await limit(
        api, LimitRangeItem(type="PersistentVolumeClaim", min=amounts(storage="2Gi"), max=amounts(storage="8Gi"))
    )
    resources = VolumeResourceRequirements(requests=amounts(storage=size))
    spec = PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), resources=resources)
    claims = api.admin.resource(PERSISTENTVOLUMECLAIMS, "default")
    creation = claims.create(PersistentVolumeClaim(metadata=ObjectMeta(name="v"), spec=spec))
    if why:
        assert await refused(creation) == f'persistentvolumeclaims "v" is forbidden: {why}'
    else:
        await creation
