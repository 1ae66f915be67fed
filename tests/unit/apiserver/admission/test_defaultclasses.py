"""Classes for ingresses and volume claims that name none."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import PersistentVolumeClaim
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.networking_v1 import Ingress, IngressClass
from cathedra.api.core.storage_v1 import StorageClass
from cathedra.api.struct import from_dict
from cathedra.client.resources import resource_ref
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, refused

INGRESSES = resource_ref(Ingress, "ingresses", namespaced=True)
INGRESS_CLASSES = resource_ref(IngressClass, "ingressclasses", namespaced=False)
CLAIMS = resource_ref(PersistentVolumeClaim, "persistentvolumeclaims", namespaced=True)
STORAGE_CLASSES = resource_ref(StorageClass, "storageclasses", namespaced=False)


def ingress(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Ingress:
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    body = {"metadata": {"name": name, "annotations": annotations or {}}, "spec": {"defaultBackend": backend, **spec}}
    return from_dict(Ingress, body)


def claim(name: str, **spec: Any) -> PersistentVolumeClaim:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return from_dict(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": wanted})


def default(kind: str, name: str) -> ObjectMeta:
    return ObjectMeta(name=name, annotations={f"{kind}.kubernetes.io/is-default-class": "true"})


@run_with(guarded)
async def test_an_ingress_gets_the_default_class_unless_it_has_one(api: Guarded) -> None:
    ingresses = api.admin.resource(INGRESSES, "default")
    assert (await ingresses.create(ingress("before"))).spec.ingress_class_name is None
    classes = api.admin.resource(INGRESS_CLASSES)
    await classes.create(IngressClass(metadata=default("ingressclass", "nginx")))
    await classes.create(IngressClass(metadata=ObjectMeta(name="other")))
    assert (await ingresses.create(ingress("a"))).spec.ingress_class_name == "nginx"
    assert (await ingresses.create(ingress("b", ingressClassName="other"))).spec.ingress_class_name == "other"
    old = ingress("c", annotations={"kubernetes.io/ingress.class": "x"})
    assert (await ingresses.create(old)).spec.ingress_class_name is None


@run_with(guarded)
async def test_two_default_classes_of_ingresses_are_one_too_many(api: Guarded) -> None:
    for name in ("a", "b"):
        await api.admin.resource(INGRESS_CLASSES).create(IngressClass(metadata=default("ingressclass", name)))
    said = await refused(api.admin.resource(INGRESSES, "default").create(ingress("i")))
    assert said == (
        'ingresses.networking.k8s.io "i" is forbidden: Internal error occurred: 2 default IngressClasses were '
        "found, only 1 allowed"
    )


@run_with(guarded)
async def test_a_claim_gets_the_newest_default_class_unless_it_wants_none(api: Guarded) -> None:
    classes = api.admin.resource(STORAGE_CLASSES)
    for name in ("b", "a"):
        made = StorageClass(metadata=default("storageclass", name), provisioner="p")
        await classes.create(made)
        await api.clock.sleep(2)
    claims = api.admin.resource(CLAIMS, "default")
    assert (await claims.create(claim("x"))).spec.storage_class_name == "a"
    assert (await claims.create(claim("y", storageClassName=""))).spec.storage_class_name == ""
