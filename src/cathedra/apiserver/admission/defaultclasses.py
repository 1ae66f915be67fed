"""Classes for objects that name none: of ingresses and of volume claims (plugins DefaultIngressClass and
DefaultStorageClass)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cathedra.api.core.core_v1 import PersistentVolumeClaim
from cathedra.api.core.networking_v1 import Ingress
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden, internal_error
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection

_INGRESSES: Final = GroupResource("networking.k8s.io", "ingresses")
_INGRESS_CLASSES: Final = GroupResource("networking.k8s.io", "ingressclasses")
_VOLUME_CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
_STORAGE_CLASSES: Final = GroupResource("storage.k8s.io", "storageclasses")
_DEFAULT_INGRESS: Final = "ingressclass.kubernetes.io/is-default-class"
_OLD_INGRESS: Final = "kubernetes.io/ingress.class"
_DEFAULT_STORAGE: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_OLD_STORAGE: Final = "volume.beta.kubernetes.io/storage-class"


class DefaultIngressClass(AdmissionPlugin):
    """Gives a new ingress the default class."""

    kinds = frozenset({_INGRESSES})

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def admit(self, request: AdmissionAttributes) -> Any:
        """Return the ingress, with the default class if it is new and names none.

        Raises:
            StatusError: 403, several classes are the default.
        """
        ingress: Ingress = request.object
        if request.operation != "CREATE" or request.subresource:
            return ingress
        if ingress.spec.ingress_class_name is not None or _OLD_INGRESS in ingress.metadata.annotations:
            return ingress
        classes = _objects(self._registry, _INGRESS_CLASSES)
        found = [one for one in classes if one.metadata.annotations.get(_DEFAULT_INGRESS) == "true"]
        if len(found) > 1:
            error = internal_error(f"{len(found)} default IngressClasses were found, only 1 allowed")
            raise forbidden(_INGRESSES, request.name, error.status.message)
        if not found:
            return ingress
        return replace(ingress, spec=replace(ingress.spec, ingress_class_name=found[0].metadata.name))


class DefaultStorageClass(AdmissionPlugin):
    """Gives a new volume claim the default class, the newest if there are several."""

    kinds = frozenset({_VOLUME_CLAIMS})

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def admit(self, request: AdmissionAttributes) -> Any:
        """Return the claim, with the newest default class if it is new and names none."""
        claim: PersistentVolumeClaim = request.object
        if request.operation != "CREATE" or request.subresource:
            return claim
        if claim.spec.storage_class_name is not None or _OLD_STORAGE in claim.metadata.annotations:
            return claim
        classes = _objects(self._registry, _STORAGE_CLASSES)
        found = [one for one in classes if _is_default(one.metadata.annotations)]
        if not found:
            return claim
        # Of classes that were created in the same second the first by name counts, as in Kubernetes: max() returns
        # the first of equal ones.
        by_name = sorted(found, key=lambda one: str(one.metadata.name))
        newest = max(by_name, key=lambda one: one.metadata.creation_timestamp.micros)
        return replace(claim, spec=replace(claim.spec, storage_class_name=newest.metadata.name))


def _is_default(annotations: Mapping[str, str]) -> bool:
    return any(annotations.get(name) == "true" for name in _DEFAULT_STORAGE)


def _objects(registry: Registry, resource: GroupResource) -> list[Any]:
    try:
        table = registry.table(resource)
    except KeyError:
        return []
    return [entry.object for entry in table.select(Selection(""))] if len(table) else []
