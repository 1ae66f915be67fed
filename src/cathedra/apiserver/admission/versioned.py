"""A request for policies and webhooks: its objects as plain JSON, in the version that each of them needs.

Conversion and encoding cost more than all plugins together, so nothing is made before a policy or webhook matches, and
everything once per version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cathedra.api.core.authentication_v1 import TokenRequest
from cathedra.api.core.autoscaling_v1 import Scale
from cathedra.api.core.core_v1 import Binding
from cathedra.api.core.policy_v1 import Eviction
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import encode, to_dict
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.authentication.authenticator import as_json
from cathedra.kinds.definition import VersionDefinition

_OWN_KINDS: Final[Mapping[type, GroupVersionKind]] = {
    Binding: GroupVersionKind("", "v1", "Binding"),
    Eviction: GroupVersionKind("policy", "v1", "Eviction"),
    Scale: GroupVersionKind("autoscaling", "v1", "Scale"),
    TokenRequest: GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest"),
}
"""Bodies of sub-resources that have a kind of their own."""
_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class VersionedAttributes:
    """The views of one request."""

    def __init__(self, request: AdmissionAttributes) -> None:
        self._request = request
        self._objects: dict[tuple[str, bool], dict[str, Any] | None] = {}

    async def convert(self, version: VersionDefinition) -> None:
        """Convert the objects to a version by a webhook, if the kind has one. Call it before the objects are read.

        Raises:
            StatusError: 500, the conversion failed.
        """
        request = self._request
        conversion = request.definition.conversion
        if conversion is None or version.name == request.version.name:
            return
        for old, obj in ((False, request.object), (True, request.old_object)):
            if (version.name, old) in self._objects or type(obj) is not request.version.type:
                continue
            wanted = request.definition.gvk(version.name)
            made = await conversion.between(obj, request.call.api_version, wanted.api_version)
            self._objects[version.name, old] = _shown(wanted, made)

    def object(self, version: VersionDefinition) -> dict[str, Any] | None:
        """Return the object in that version, with its kind; None in a deletion."""
        return self._view(version, old=False)

    def old_object(self, version: VersionDefinition) -> dict[str, Any] | None:
        """Return the stored object in that version, with its kind; None in a creation."""
        return self._view(version, old=True)

    def attributes(self, version: VersionDefinition) -> dict[str, Any]:
        """Return the request without its objects, as an ``AdmissionRequest`` of admission.k8s.io."""
        request = self._request
        shown: dict[str, Any] = {
            "kind": _kind(self._gvk(version)),
            "resource": self._resource(version),
            "requestKind": _kind(self._gvk(request.version)),
            "requestResource": self._resource(request.version),
            "name": request.name,
            "operation": request.operation,
            "userInfo": as_json(request.user),
            "dryRun": request.dry_run,
            "options": self._options(),
        }
        if request.namespace:
            shown["namespace"] = request.namespace
        if request.subresource:
            shown["subResource"] = shown["requestSubResource"] = request.subresource
        return shown

    def _resource(self, version: VersionDefinition) -> dict[str, str]:
        definition = self._request.definition
        return {"group": definition.group, "version": version.name, "resource": definition.plural}

    def _gvk(self, version: VersionDefinition) -> GroupVersionKind:
        request = self._request
        own = _OWN_KINDS.get(type(request.object if request.object is not None else request.old_object))
        return own or request.definition.gvk(version.name)

    def _view(self, version: VersionDefinition, *, old: bool) -> dict[str, Any] | None:
        key = (version.name, old)
        if key not in self._objects:
            self._objects[key] = self._made(version, old=old)
        return self._objects[key]

    def _made(self, version: VersionDefinition, *, old: bool) -> dict[str, Any] | None:
        obj = self._request.old_object if old else self._request.object
        if obj is None:
            return None
        kind = _OWN_KINDS.get(type(obj))
        if kind is None:
            kind = self._request.definition.gvk(version.name)
            obj = obj if type(obj) is version.type else version.from_hub(obj)
            # Some versions show fields that the hub version stores elsewhere.
            obj = obj if version.shown is None else version.shown(obj)
        return _shown(kind, obj)

    def _options(self) -> dict[str, Any]:
        request = self._request
        shown = {"kind": _OPTIONS.get(request.operation, ""), "apiVersion": "meta.k8s.io/v1"}
        given = to_dict(request.options) if request.options is not None else {}
        if request.dry_run:
            given["dryRun"] = ["All"]
        if request.field_manager:
            given["fieldManager"] = request.field_manager
        return {**shown, **given}


def size_of(request: AdmissionAttributes) -> int:
    """Bytes of the larger one of the request's objects in JSON."""
    return max(len(encode(one)) for one in (request.object, request.old_object))


def own_kind(kind: type) -> GroupVersionKind | None:
    """Return the kind of a sub-resource's body that has a kind of its own; None for all other types."""
    return _OWN_KINDS.get(kind)


def _shown(kind: GroupVersionKind, obj: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **to_dict(obj)}


def _kind(kind: GroupVersionKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}
