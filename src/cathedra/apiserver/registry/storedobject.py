"""An object at one revision, with its encoded form in each version made once for all who read it about the same time.

Lists, gets and watches of a hundred clients share the bytes; that is why the API server is fast. What has not been
written for minutes lets go of them: of events, which are hardly ever read, they are a third.

What another server wrote comes as bytes, and most of it goes out again as these bytes, if anyone asks for it here at
all. So the object in them is read when it is asked for; that is a quarter of what such a write costs here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cathedra.api.parts import parts_decoder, reader_of
from cathedra.api.protobuf import encode_message
from cathedra.api.struct import encode, replace
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.kinds.definition import VersionDefinition
from cathedra.remembering import forget_large

__all__ = ["StoredObject", "split_key"]


def split_key(key: str) -> tuple[str, str]:
    """Namespace and name of a table's key."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


class StoredObject(msgspec.Struct, eq=False):
    """One object as it was after one write. ``key`` is ``namespace/name``, or the name in cluster scope.

    A struct, since one is made for every write, in half the time that a class of Python's takes.
    """

    key: str
    _object: Any
    """None: it was not asked for yet."""
    revision: int
    _bodies: dict[type, bytes] = {}
    """Forms that were made elsewhere may be given."""
    _views: dict[type, Any] | None = None
    _messages: dict[type, bytes] | None = None
    _seen: dict[type, StoredObject] | None = None
    _shown: dict[type, bytes] | None = None
    _unread: type | None = None
    """The form in which it came, until it is read."""
    _earlier: StoredObject | None = None
    """Of what was not read yet: the last state that was."""

    @staticmethod
    def unread(key: str, revision: int, kind: type, body: bytes, previous: StoredObject | None) -> StoredObject:
        """A state that came as the JSON of a type. What it has in common with the last state before it that was read
        here is the very same object."""
        earlier = previous if previous is None or previous._object is not None else previous._earlier
        return StoredObject(key, None, revision, {kind: body}, _unread=kind, _earlier=earlier)

    @property
    def object(self) -> Any:
        """The object, as its table holds it.

        Raises:
            StorageError: it came as bytes, which do not spell one.
        """
        found = self._object
        return self._read() if found is None else found

    def __repr__(self) -> str:
        return f"StoredObject({self.key!r}, revision={self.revision})"

    def view(self, version: VersionDefinition) -> Any:
        """The object in that version; converted once."""
        if type(self.object) is version.type:
            return self.object
        if self._views is None:
            self._views = {}
        found = self._views.get(version.type)
        if found is None:
            found = self._views[version.type] = version.from_hub(self.object)
        return found

    def body(self, version: VersionDefinition) -> bytes:
        """JSON in that version, without kind and apiVersion; encoded once."""
        found = self._bodies.get(version.type)
        if found is None:
            found = self._bodies[version.type] = encode(self.view(version))
            forget_large(len(found))
        return found

    @property
    def size(self) -> int:
        """Bytes of its JSON in the form that was made first; 0 if none was, or all were dropped."""
        for body in self._bodies.values():
            return len(body)
        return 0

    def body_in(self, kind: type) -> bytes | None:
        """JSON in the form of that type, if it was made and kept."""
        return self._bodies.get(kind)

    def shown(self, version: VersionDefinition) -> bytes:
        """JSON for readers in that version: `body`, unless the release shows more or less; encoded once."""
        if version.shown is None:
            return self.body(version)
        if self._shown is None:
            self._shown = {}
        found = self._shown.get(version.type)
        if found is None:
            view = self.view(version)
            shown = version.shown(view)
            found = self._shown[version.type] = self.body(version) if shown is view else encode(shown)
        return found

    def message(self, version: VersionDefinition) -> bytes:
        """The bare protobuf message in that version; encoded once."""
        if self._messages is None:
            self._messages = {}
        found = self._messages.get(version.type)
        if found is None:
            found = self._messages[version.type] = encode_message(self.view(version))
        return found

    def seen(self, kind: type) -> StoredObject | None:
        """The same state in another version, if it was kept: conversions by webhooks are made once."""
        return self._seen.get(kind) if self._seen is not None else None

    def keep_seen(self, kind: type, entry: StoredObject) -> None:
        """Remember the state in another version."""
        if self._seen is None:
            self._seen = {}
        self._seen[kind] = entry

    def forget_forms(self) -> None:
        """Drop what can be made again from the object: each form comes back with its next reader."""
        self._views = self._messages = self._shown = None
        if self._unread is None:
            self._bodies = {}

    def at(self, revision: int) -> StoredObject:
        """The same state, marked with a later revision."""
        metadata = replace(self.object.metadata, resource_version=str(revision))
        return StoredObject(self.key, replace(self.object, metadata=metadata), revision)

    def _read(self) -> Any:
        kind, earlier = self._unread, self._earlier
        assert kind is not None
        body = self._bodies[kind]
        before = None if earlier is None else earlier.body_in(kind)
        try:
            if earlier is None or before is None:
                self._object = reader_of(kind)(body)
            else:
                self._object = parts_decoder(kind).later(body, earlier.object, before)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StorageError(f"the object of {self.key} cannot be read: {error}") from error
        self._unread = self._earlier = None
        return self._object
