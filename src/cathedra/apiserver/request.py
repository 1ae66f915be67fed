"""One operation on a resource, as the verbs see it; the same over HTTP and in process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from cathedra.api.field import shortened_text
from cathedra.api.scheme import GroupResource, GroupVersionKind
from cathedra.api.status import StatusError, bad_request
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes
from cathedra.apiserver.patches.duplicates import warnings_of
from cathedra.apiserver.registry.selection import single_name
from cathedra.kinds.definition import AnyDefinition, Strategy, VersionDefinition
from cathedra.releases import DEFAULT_RELEASE
from cathedra.remembering import remembered

__all__ = ["Call", "note_problems", "unfit"]

_SERVER_SIDE: Final[Strategy[Any]] = Strategy()


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A verb on a resource in one version, by a user, with the options of the write.

    Where a `RequestInfo` says what a URL names, a call has found it: the definition and the version that are served.

    A struct rather than a dataclass, because a call is copied several times on its way: `but` takes 1 µs, where
    `dataclasses.replace` takes 10.
    """

    user: UserInfo
    verb: str
    """In the words of authorization: get, list, watch, create, update, patch, delete, deletecollection."""
    definition: AnyDefinition
    version: VersionDefinition
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool = False
    release: str = DEFAULT_RELEASE
    """The release whose fields are known."""
    size: int = 0
    """Bytes of the request's body; 0 if the object came without one, from a part in the same process."""
    trusted: bool = False
    """Whether the authorizer allows the user everything, so that it need not be asked."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """Texts for ``Warning`` headers, in order; appended while the call is handled."""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    """What is added to its audit event while it is handled."""

    def but(self, **changes: Any) -> Call:
        """The same call with other values in the named attributes."""
        return msgspec.structs.replace(self, **changes)

    @property
    def resource(self) -> GroupResource:
        """Group and plural."""
        return self.definition.group_resource

    @property
    def strategy(self) -> Strategy[Any]:
        """The rules of the resource or sub-resource that is written."""
        if self.subresource:
            # A sub-resource without rules of its own is the server's work: it changes what no client could.
            return self.definition.subresources.get(self.subresource, _SERVER_SIDE)
        return self.definition.strategy

    @property
    def key(self) -> str:
        """The object's key in its table."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def gvk(self) -> GroupVersionKind:
        """Group, version and kind."""
        return _names(self.definition.group, self.version.name, self.definition.kind)[0]

    @property
    def api_version(self) -> str:
        """``group/version``."""
        return _names(self.definition.group, self.version.name, self.definition.kind)[1]

    @property
    def prefix(self) -> bytes:
        """How an object's JSON begins in this version: kind and apiVersion."""
        return _names(self.definition.group, self.version.name, self.definition.kind)[2]

    def attributes(self, *, field_selector: str = "", label_selector: str = "") -> Attributes:
        """The question for the authorizer. A selector that asks for one name asks for that object."""
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


@remembered("apiserver.request.names", size=1024)
def _names(group: str, version: str, kind: str) -> tuple[GroupVersionKind, str, bytes]:
    """Kind, apiVersion and how the JSON of such objects begins; asked several times per request."""
    gvk = GroupVersionKind(group, version, kind)
    return gvk, gvk.api_version, f'{{"kind":"{kind}","apiVersion":"{gvk.api_version}",'.encode()


def unfit(gvk: GroupVersionKind, text: str) -> StatusError:
    """Return the refusal of a body that does not decode as the kind."""
    return bad_request(f'{gvk.kind} in version "{gvk.version}" cannot be handled as a {gvk.kind}: {text}')


def note_problems(call: Call, problems: tuple[str, ...], refuse: Callable[[str], StatusError]) -> None:
    """Unknown and repeated fields: an error in strict validation, warnings by default.

    Raises:
        StatusError: what ``refuse`` makes of the text, in strict validation.
    """
    if call.field_validation == "Strict":
        raise refuse(shortened_text(f"strict decoding error: {', '.join(problems)}"))
    if call.field_validation != "Ignore":
        call.warnings.extend(text for problem in problems for text in warnings_of(problem))
