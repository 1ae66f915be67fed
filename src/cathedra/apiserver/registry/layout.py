"""Keys and values of objects in a store.

`LogLayout` is that of a log that one process writes: keys are ``/group/plural/namespace/name``, and a value is the
object's JSON with its resource version, which is also the answer to a request for the object.

`SharedLayout` is Kubernetes' own in etcd. A value is JSON with kind and apiVersion. Kubernetes distinguishes JSON and
protobuf by their first bytes, and this module reads both; it writes JSON, which is fifty times faster here and readable
without tools. The resource version is the revision under which a value was written, and not part of it.

A server of a newer release may have written fields that this one's release does not know, before a downgrade or during
an upgrade. They are dropped when a value is read, as Kubernetes' decoder does it: they are not shown, do not stand in
the way of a change, and are gone from the store with the next write through this server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.nesting import WRAPPED_DEPTH, check_nesting
from cathedra.api.protobuf import MAGIC, ProtobufError, decode_message, has_message, unwrap
from cathedra.api.releasefields import of_release, without_unknown_fields
from cathedra.api.scheme import GroupResource
from cathedra.api.status import failure
from cathedra.api.struct import KubeStruct, decode, encode, replace
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.storage.protocol import Record, StorageError
from cathedra.kinds.definition import AnyDefinition, VersionDefinition

_PREFIXES: Final = {
    ("", "endpoints"): "services/endpoints",
    ("", "nodes"): "minions",
    ("", "replicationcontrollers"): "controllers",
    ("", "services"): "services/specs",
    ("networking.k8s.io", "ingresses"): "ingress",
}
_BY_GROUP: Final = "apiextensions.k8s.io"


Decode = Callable[[Any, bytes], Any]
"""Decodes JSON into a type, and raises `msgspec.DecodeError` if that is impossible."""


class Layout(Protocol):
    """Keys and values of one kind of store."""

    def prefix(self, definition: AnyDefinition) -> str:
        """Return the prefix of the keys of a resource's objects, without the slash behind it."""

    def write(self, definition: AnyDefinition, obj: KubeObject) -> bytes:
        """Return the value of an object whose revision the store has yet to assign."""

    def written(
        self, definition: AnyDefinition, key: str, revision: int, obj: KubeObject, value: bytes
    ) -> StoredObject:
        """Return the state of an object that `write` made a value of, at the revision that the store assigned."""

    def stored(
        self, definition: AnyDefinition, key: str, revision: int, value: bytes, previous: StoredObject | None
    ) -> StoredObject:
        """Return the state of an object by its value in the store. ``previous`` is its state before, if it had one.

        Raises:
            StorageError: the value is no object of this resource, or of a version that is not known here.
        """

    def read(self, definition: AnyDefinition, record: Record, decoded: Decode = decode) -> Any:
        """Return the object of a record, in the hub version and with its resource version. ``decoded`` decodes JSON.

        Raises:
            StorageError: as `stored`.
        """


_UNNUMBERED: Final = b'"resourceVersion":"0"'
"""The resource version of an object that is not numbered yet. It is the first in an object's JSON: only texts stand
before it in the metadata, and in texts quotation marks are escaped."""


def numbered(value: bytes, revision: int) -> bytes:
    """Return a value of `LogLayout.write` with the revision that was assigned to it."""
    # The revision is assigned after the value was encoded. Encoding again would double the cost of every write.
    return value.replace(_UNNUMBERED, b'"resourceVersion":"%d"' % revision, 1)


class LogLayout:
    """The layout of a store that one process writes."""

    def __init__(self, release: str) -> None:
        self._release = release

    def prefix(self, definition: AnyDefinition) -> str:
        """Return the prefix of a resource's keys, ``/group/plural``."""
        return f"/{definition.group}/{definition.plural}"

    def write(self, definition: AnyDefinition, obj: KubeObject) -> bytes:
        """Return the object's JSON with the resource version 0, for `numbered`."""
        return encode(stamped(obj, 0))

    def written(
        self, definition: AnyDefinition, key: str, revision: int, obj: KubeObject, value: bytes
    ) -> StoredObject:
        """Return the state with the JSON that the store has: it is not encoded again for readers."""
        body = numbered(value, revision)
        return StoredObject(key, stamped(obj, revision), revision, body, len(body))

    def stored(
        self, definition: AnyDefinition, key: str, revision: int, value: bytes, previous: StoredObject | None
    ) -> StoredObject:
        """Return the state. Its JSON is decoded when the object is first read; at once only where several forms may be
        stored.

        Raises:
            StorageError: several forms may be stored, and the value is none of them.
        """
        # The version of custom resources stands in the JSON, so it has to be read before the type is known.
        if definition.stored_types:
            return StoredObject(key, self.read(definition, Record(key, revision, value)), revision)
        return StoredObject.unread(key, revision, definition.type, value, previous)

    def read(self, definition: AnyDefinition, record: Record, decoded: Decode = decode) -> Any:
        """Return the object of a value with or without a resource version.

        Raises:
            StorageError: it is no object of this resource.
        """
        try:
            if record.decoded is not None and type(record.decoded) is definition.type:
                # Fast path for the copy of a cluster: encoding and decoding 50,000 objects takes seconds.
                return stamped(_as_parsed(definition, record.decoded, self._release), record.revision)
            value = record.value if record.decoded is None else encode(record.decoded)
            # Values of older backups have a resource version of their own; `stamped` replaces it by the record's.
            obj: KubeObject = _as_known(definition, _as_stored(definition, value, decoded), self._release)
        except msgspec.DecodeError as error:
            raise StorageError(f"the object stored at {record.key} cannot be read: {error}") from error
        return stamped(obj, record.revision)


def stamped(obj: KubeObject, revision: int) -> Any:
    """Return the object with the resource version of a revision."""
    if obj.metadata.resource_version == str(revision):
        return obj  # as all objects of a log that were not converted
    return replace(obj, metadata=replace(obj.metadata, resource_version=str(revision)))


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

    def __init__(self, release: str) -> None:
        self._release = release
        self._forms: dict[GroupResource, _ValueForm] = {}

    def prefix(self, definition: AnyDefinition) -> str:
        """Return the plural, or one of a few old names; for custom resources and their definitions behind the group."""
        group, plural = definition.group, definition.plural
        # kube-apiserver puts custom resources under their group and built-in kinds under their plural alone. With
        # another prefix the two servers would not see each other's objects.
        if group == _BY_GROUP or not has_message(definition.type):
            return f"{group}/{plural}"
        return _PREFIXES.get((group, plural), plural)

    def write(self, definition: AnyDefinition, obj: KubeObject) -> bytes:
        """Return the JSON of the object's storage version, with its kind."""
        return self._form(definition).write(obj)

    def written(
        self, definition: AnyDefinition, key: str, revision: int, obj: KubeObject, value: bytes
    ) -> StoredObject:
        """Return the state with readers' JSON, made from the store's."""
        form = self._form(definition)
        # Every stored object has a uid; tests make some without.
        if not form.is_shown or not obj.metadata.uid:
            return StoredObject(key, stamped(obj, revision), revision)
        body = form.shown(value, revision)
        return StoredObject(key, stamped(obj, revision), revision, body, len(body))

    def stored(
        self, definition: AnyDefinition, key: str, revision: int, value: bytes, previous: StoredObject | None
    ) -> StoredObject:
        """Return the state as any server may have written it.

        Raises:
            StorageError: it is no object of this resource, or of a version that is not known here.
        """
        return StoredObject(key, self.read(definition, Record(key, revision, value)), revision)

    def read(self, definition: AnyDefinition, record: Record, decoded: Decode = decode) -> Any:
        """Return the object as any server may have written it: JSON or protobuf, in any version that is known.

        Raises:
            StorageError: it is no object of this resource, or of a version that is not known here.
        """
        return self._form(definition).read(record, decoded)

    def _form(self, definition: AnyDefinition) -> _ValueForm:
        found = self._forms.get(definition.group_resource)
        # A changed custom resource has another definition under the same name. The former form would decode with the
        # former versions.
        if found is None or found.definition is not definition:
            found = self._forms[definition.group_resource] = _ValueForm(definition, self._release)
        return found


_UID: Final = b'"uid":"'


class _Head(msgspec.Struct, rename={"api_version": "apiVersion"}):
    api_version: str = ""


def _as_stored(definition: AnyDefinition, value: bytes, decoded: Decode) -> Any:
    """Decode JSON; into the type of its apiVersion, where several may be stored."""
    kind: type[KubeStruct] = definition.type
    if definition.stored_types:
        said = msgspec.json.decode(value, type=_Head).api_version
        kind = definition.stored_types.get(said, kind)
    return decoded(kind, value)


# The fields of custom resources are the same in all releases.
def _as_parsed(definition: AnyDefinition, obj: Any, release: str) -> Any:
    """Return an object of this process as the release's decoder would read its JSON."""
    return of_release(obj, release) if has_message(definition.type) else obj


def _as_known(definition: AnyDefinition, obj: Any, release: str) -> Any:
    """Return a parsed object without the fields that the release does not know."""
    return without_unknown_fields(obj, release) if has_message(definition.type) else obj


class _ValueForm:
    """The shared form of one resource's objects."""

    def __init__(self, definition: AnyDefinition, release: str) -> None:
        self.definition = definition
        self._release = release
        self.head = b""
        """The beginning of a value: kind and apiVersion. Values of custom resources have none, for an object has its
        own."""
        self._stored: VersionDefinition | None = None
        """The version that is written, where it has another shape than the hub."""
        if has_message(definition.type):
            version = _storage_version(definition)
            gvk = definition.gvk(version.name)
            self.head = f'{{"kind":"{gvk.kind}","apiVersion":"{gvk.api_version}",'.encode()
            if version.type is not definition.type:
                self._stored = version

    @property
    def is_shown(self) -> bool:
        """Return True if a written value has the JSON of the hub version."""
        return bool(self.head) and self._stored is None

    def write(self, obj: KubeObject) -> bytes:
        if self._stored is not None:
            obj = replace(self._stored.from_hub(obj), kind="", api_version="")
        # The store assigns the revision. A stored number would be outdated as soon as it is written.
        body = encode(replace(obj, metadata=replace(obj.metadata, resource_version="")))
        return self.head + body[1:] if self.head else body

    def shown(self, value: bytes, revision: int) -> bytes:
        """Return the JSON of an object with its resource version, by a value of `write` that has a head and a uid."""
        # The first uid is the object's: kind, version and metadata come first, and in texts quotation marks are
        # escaped. The resource version follows it. Encoding again would cost as much as the write.
        end = value.index(b'"', value.index(_UID) + len(_UID)) + 1
        return b'{%b,"resourceVersion":"%d"%b' % (value[len(self.head) : end], revision, value[end:])

    def read(self, record: Record, decoded: Decode) -> Any:
        try:
            obj = self._read(record.value, decoded)
        except (msgspec.DecodeError, ProtobufError, ValueError) as error:
            raise StorageError(f"the object stored at {record.key} cannot be read: {error}") from error
        return stamped(_as_known(self.definition, obj, self._release), record.revision)

    def _read(self, value: bytes, decoded: Decode) -> Any:
        definition = self.definition
        # Values that this program wrote begin with exactly these bytes, so they need neither a scan for the version nor
        # a conversion.
        if self.is_shown and value.startswith(self.head):
            return decoded(definition.type, b"{" + value[len(self.head) :])
        if value.startswith(MAGIC):
            found = unwrap(value)
            version = self._version(found.api_version)
            return version.to_hub(decode_message(version.type, found.message))
        if not self.head:
            return _as_stored(definition, value, decoded)
        # The value may come from any program with access to etcd. Deep nesting would exhaust the decoder's stack.
        check_nesting(value, WRAPPED_DEPTH)
        version = self._version(msgspec.json.decode(value, type=_Head).api_version)
        obj: KubeObject = decoded(version.type, value)
        return version.to_hub(replace(obj, kind="", api_version=""))

    def _version(self, api_version: str) -> VersionDefinition:
        for version in self.definition.versions:
            if self.definition.gvk(version.name).api_version == api_version:
                return version
        raise ValueError(f"version {api_version!r} is not known")


def _storage_version(definition: AnyDefinition) -> VersionDefinition:
    """Return the declared storage version.

    It is not always the newest: the release before does not know that one, and has to read what is stored while servers
    of both run, and after a downgrade.
    """
    by_name = {version.name: version for version in definition.versions}
    return by_name.get(definition.storage_version, definition.versions[0])
