"""How stores name and keep an object.

A store of our own has keys and values as simple as can be. A shared one has Kubernetes' keys, and JSON with kind and
apiVersion: Kubernetes reads JSON in etcd as well as protobuf (it tells them apart by their first bytes), and so does
this module; it writes JSON, because that is fifty times faster here and readable without tools. The resource version is
not part of a shared value: it is the revision under which the value was written.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.nesting import WRAPPED_DEPTH, check_nesting
from cathedra.api.protobuf import MAGIC, ProtobufError, decode_message, has_message, unwrap
from cathedra.api.scheme import GroupResource, UnknownKind, kind_of
from cathedra.api.status import failure
from cathedra.api.struct import KubeStruct, decode, encode, replace
from cathedra.apiserver.storage.protocol import Record, StorageError
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

__all__ = ["MAX_VALUE", "Layout", "LogLayout", "SharedLayout", "check_size"]

_PREFIXES: Final = {
    ("", "endpoints"): "services/endpoints",
    ("", "nodes"): "minions",
    ("", "replicationcontrollers"): "controllers",
    ("", "services"): "services/specs",
    ("networking.k8s.io", "ingresses"): "ingress",
}
_BY_GROUP: Final = "apiextensions.k8s.io"


class Layout(Protocol):
    """Keys and values of one kind of store."""

    def prefix(self, definition: AnyDefinition) -> str:
        """What stands before an object's key, without the slash between."""
        ...

    def read(self, definition: AnyDefinition, record: Record) -> Any:
        """The object of a record, in the hub version and with its resource version.

        Raises:
            StorageError: it is no object of this resource, or of a version that is not known here.
        """
        ...


class LogLayout:
    """The layout of a store that one process writes."""

    def prefix(self, definition: AnyDefinition) -> str:
        """``/group/plural``."""
        return f"/{definition.group}/{definition.plural}"

    def read(self, definition: AnyDefinition, record: Record) -> Any:
        """The object; its JSON was written by `encode`.

        Raises:
            StorageError: it is no object of this resource.
        """
        try:
            obj: KubeObject = _as_stored(definition, record.value)
        except msgspec.DecodeError as error:
            raise StorageError(f"the object stored at {record.key} cannot be read: {error}") from error
        return replace(obj, metadata=replace(obj.metadata, resource_version=str(record.revision)))


MAX_VALUE: Final = 1536 * 1024 - 4096
"""Bytes of an object in a store: what etcd takes in a request, 1.5 MiB, less room for its key. A write has the key
three times: in the comparison, the put and the range."""


def check_size(value: bytes) -> None:
    """Refuse an object that is too large for etcd, whichever store there is.

    Bodies of requests have a limit of their own, but defaults, mutations and merged patches come after that. Where the
    limit is that of every store, objects can be moved from one to the other.

    Raises:
        StatusError: 500 without a reason, which is what kube-apiserver makes of etcd's refusal.
    """
    if len(value) > MAX_VALUE:
        raise failure(500, "", "etcdserver: request is too large")


class SharedLayout:
    """The layout of Kubernetes in etcd."""

    def __init__(self) -> None:
        self._forms: dict[GroupResource, _ValueForm] = {}

    def prefix(self, definition: AnyDefinition) -> str:
        """The plural, or one of a few old names; the group in front for custom resources and their definitions."""
        group, plural = definition.group, definition.plural
        if group == _BY_GROUP or not has_message(definition.type):
            return f"{group}/{plural}"
        return _PREFIXES.get((group, plural), plural)

    def write(self, definition: AnyDefinition, obj: KubeObject) -> bytes:
        """The value that stands for an object."""
        return self._form(definition).write(obj)

    def read(self, definition: AnyDefinition, record: Record) -> Any:
        """The object as any server may have written it: JSON or protobuf, in any version that is known.

        Raises:
            StorageError: it is no object of this resource, or of a version that is not known here.
        """
        return self._form(definition).read(record)

    def _form(self, definition: AnyDefinition) -> _ValueForm:
        found = self._forms.get(definition.group_resource)
        if found is None or found.definition is not definition:
            found = self._forms[definition.group_resource] = _ValueForm(definition)
        return found


class _Head(msgspec.Struct, rename={"api_version": "apiVersion"}):
    api_version: str = ""


def _as_stored(definition: AnyDefinition, value: bytes) -> Any:
    """The object of a value that is JSON; of the version that it says, where several may be stored."""
    kind: type[KubeStruct] = definition.type
    if definition.stored_types:
        said = msgspec.json.decode(value, type=_Head).api_version
        kind = definition.stored_types.get(said, kind)
    return decode(kind, value)


class _ValueForm:
    """The shared form of one resource's objects."""

    def __init__(self, definition: AnyDefinition) -> None:
        self.definition = definition
        self._head = b""
        if has_message(definition.type):
            gvk = definition.gvk(_storage_version(definition))
            self._head = f'{{"kind":"{gvk.kind}","apiVersion":"{gvk.api_version}",'.encode()

    def write(self, obj: KubeObject) -> bytes:
        body = encode(replace(obj, metadata=replace(obj.metadata, resource_version="")))
        return self._head + body[1:] if self._head else body

    def read(self, record: Record) -> Any:
        try:
            obj = self._read(record.value)
        except (msgspec.DecodeError, ProtobufError, ValueError) as error:
            raise StorageError(f"the object stored at {record.key} cannot be read: {error}") from error
        return replace(obj, metadata=replace(obj.metadata, resource_version=str(record.revision)))

    def _read(self, value: bytes) -> Any:
        definition = self.definition
        if self._head and value.startswith(self._head):
            return decode(definition.type, b"{" + value[len(self._head) :])
        if value.startswith(MAGIC):
            found = unwrap(value)
            version = self._version(found.api_version)
            return version.to_hub(decode_message(version.type, found.message))
        if not self._head:
            return _as_stored(definition, value)
        check_nesting(value, WRAPPED_DEPTH)
        version = self._version(msgspec.json.decode(value, type=_Head).api_version)
        obj: KubeObject = decode(version.type, value)
        return version.to_hub(replace(obj, kind="", api_version=""))

    def _version(self, api_version: str) -> VersionDefinition:
        for version in self.definition.versions:
            if self.definition.gvk(version.name).api_version == api_version:
                return version
        raise ValueError(f"version {api_version!r} is not known")


def _storage_version(definition: AnyDefinition) -> str:
    """The hub's version, or the last one of that shape where the hub's own is not served."""
    names = [version.name for version in definition.versions if version.type is definition.type]
    hub: type[KubeStruct] = definition.type
    try:
        home = kind_of(hub).version
    except UnknownKind:
        home = ""
    return home if home in names else names[-1]
