"""One operation on a resource, as the verbs take it, and its outcome, over every transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cathedra.api.field import shortened_text
from cathedra.api.scheme import GroupResource, GroupVersionKind
from cathedra.api.status import StatusError, bad_request
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes
from cathedra.apiserver.patches.duplicates import warnings_of
from cathedra.apiserver.registry.selection import single_name
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.kinds.definition import AnyDefinition, Strategy, VersionDefinition
from cathedra.releases import DEFAULT_RELEASE
from cathedra.remembering import remembered


class Call(msgspec.Struct, frozen=True, gc=False):
    """A verb on a resource in one version, by a user, with the options of the write.

    A `RequestInfo` has the names of a URL; a call has the served definition and version behind them.

    It is a struct rather than a dataclass, because a call is copied several times on its way: `but` takes 1 µs, and
    `dataclasses.replace` takes 10."""

    user: UserInfo
    verb: str
    """A verb of authorization: get, list, watch, create, update, patch, delete, deletecollection."""
    definition: AnyDefinition
    version: VersionDefinition
    strategy: Strategy[Any]
    """The rules of the resource or sub-resource that is written. A field, because each write reads it several times."""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    release: str = DEFAULT_RELEASE
    """The release whose fields are decoded."""
    trusted: bool = False
    """True if the authorizer allows the user everything, so that it need not be called."""
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool = False
    size: int = 0
    """Size of the body in bytes; 0 if the object came without one, from a part in the same process."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """Texts for ``Warning`` headers, in order; appended while the call is handled."""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    """Annotations of its audit event; added while the call is carried out."""

    @staticmethod
    def on(definition: AnyDefinition, version: VersionDefinition, subresource: str = "", **options: Any) -> Call:
        """Return a call on a resource or sub-resource; ``options`` are the other attributes."""
        strategy = definition.strategy_of(subresource)
        return Call(definition=definition, version=version, strategy=strategy, subresource=subresource, **options)

    def but(self, **changes: Any) -> Call:
        """Return the call with other values of the named attributes, and the strategy that belongs to them."""
        call = msgspec.structs.replace(self, **changes)
        strategy = call.definition.strategy_of(call.subresource)
        return call if strategy is call.strategy else msgspec.structs.replace(call, strategy=strategy)

    @property
    def resource(self) -> GroupResource:
        """Group and plural of the resource."""
        return self.definition.group_resource

    @property
    def gvk(self) -> GroupVersionKind:
        """Group, version and kind."""
        return _names(self.definition.group, self.version.name, self.definition.kind)[0]

    @property
    def api_version(self) -> str:
        """Group and version as objects name them."""
        return self.version.api_version

    @property
    def prefix(self) -> bytes:
        """The beginning of the JSON of an object in this version: kind and apiVersion."""
        return _names(self.definition.group, self.version.name, self.definition.kind)[2]

    def attributes(self, *, field_selector: str = "", label_selector: str = "") -> Attributes:
        """Return the attributes for the authorizer. A selector of one name means that object."""
        return Attributes(
            user=self.user,
            verb=self.verb,
            group=self.definition.group,
            version=self.version.name,
            resource=self.definition.plural,
            subresource=self.subresource,
            namespace=self.namespace,
            name=self.name or (single_name(field_selector) if field_selector else ""),
            field_selector=field_selector,
            label_selector=label_selector,
        )


class Listing(msgspec.Struct, frozen=True):
    """A page of objects, and how the list continues."""

    entries: list[StoredObject]
    revision: int
    continue_: str = ""
    remaining: int | None = None


class CallAnswer(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a call: a stored object, a page of them, or an object that is not stored."""

    call: Call
    status: int = 200
    entry: StoredObject | None = None
    """The state after a write; of a deletion, the last one."""
    listing: Listing | None = None
    value: Any = None
    """A Status, a review or what a sub-resource answers."""
    gone: bool = False
    """True if the object of a deletion is gone, rather than marked."""

    @property
    def stored(self) -> StoredObject:
        """The stored object of an answer that has one."""
        assert self.entry is not None, "the verb answers with a stored object"
        return self.entry


@remembered("apiserver.request.names", size=1024)
def _names(group: str, version: str, kind: str) -> tuple[GroupVersionKind, str, bytes]:
    """Return kind, apiVersion and the beginning of the JSON of such objects; each request needs them several times."""
    gvk = GroupVersionKind(group, version, kind)
    return gvk, gvk.api_version, f'{{"kind":"{kind}","apiVersion":"{gvk.api_version}",'.encode()


def unfit(gvk: GroupVersionKind, text: str) -> StatusError:
    """Return the refusal of a body that does not decode as the kind."""
    return bad_request(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {text}')


def note_problems(call: Call, problems: tuple[str, ...], refuse: Callable[[str], StatusError]) -> None:
    """Note unknown and repeated fields: an error in strict validation, warnings by default.

    Raises:
        StatusError: what ``refuse`` makes of the text, in strict validation.
    """
    if call.field_validation == "Strict":
        raise refuse(shortened_text(f"strict decoding error: {', '.join(problems)}"))
    if call.field_validation != "Ignore":
        call.warnings.extend(text for problem in problems for text in warnings_of(problem))
