"""The description of a kind: everything the API server, discovery, OpenAPI, tables and clients need to know of it.

Adding a kind to Cathedra adds one `ResourceDefinition` and nothing else. Its strategies are pure functions on frozen
objects; whatever they need of the world (gates, time, the namespace's labels) is in the `RequestContext` they are
given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import ErrorType, FieldError
from cathedra.api.formats import Format, dns_subdomain
from cathedra.api.scheme import GroupResource, GroupVersionKind
from cathedra.kinds.deletion import DeletionRules
from cathedra.releases import FeatureGates

T = TypeVar("T", bound=KubeObject)

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""The verbs of a stored resource."""


class ExpressionFault(msgspec.Struct, frozen=True):
    """Error of an expression: INVALID (with the compiler's text), FORBIDDEN (too expensive) or INTERNAL."""

    type: ErrorType
    detail: str


class ExpressionChecker(Protocol):
    """Compiles CEL expressions for validation. The rules know no CEL; the server hands a compiler in.

    ``stored`` expressions were accepted before and compile in the most permissive environment
    (docs/spec/api.md §3.4).
    """

    def selector(self, expression: str, *, stored: bool) -> ExpressionFault | None:
        """Return the errors of a device selector: it must compile, answer a bool, and be cheap enough."""

    def derived_attribute(self, expression: str, *, stored: bool) -> tuple[ExpressionFault | None, int]:
        """Return the errors of a derived attribute's expression, and its estimated cost."""


class FieldAccess(Protocol):
    """The permissions of a request's user that decide on single fields.

    Validation knows no authorizer; the server hands one in that is bound to the request.
    """

    @property
    def verb(self) -> str:
        """The verb of the request."""

    @property
    def node(self) -> str:
        """The one node that the user's token is bound to, or ""."""

    def refusal(self, subresource: str, verb: str, *, namespace: str = "", name: str = "") -> str:
        """Return why the user may not do that on a sub-resource of the request's resource, or "" if that is
        permitted."""


class Requester(Protocol):
    """The user of a request, as its authenticator knows it."""

    @property
    def name(self) -> str:
        """The name of the user."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the user."""

    @property
    def uid(self) -> str:
        """The UID of the user, or ""."""

    @property
    def extra(self) -> Mapping[str, tuple[str, ...]]:
        """Further attributes of the user."""


class RequestContext(msgspec.Struct, frozen=True, gc=False):
    """Properties of a request on which strategies may depend. A struct, because every write creates one or two."""

    gates: FeatureGates
    now: float
    """Seconds since the Unix epoch."""
    api_version: str = ""
    """The version in which the object was sent, as ``resource.k8s.io/v1beta1``."""
    # A function and no mapping: looking up the namespace on every write would cost more than most strategies take.
    namespace_labels: Callable[[str], Mapping[str, str]] = lambda _: {}
    """Returns the labels of a namespace, which few rules need; none if it does not exist."""
    user: Requester | None = None
    """The user of the request; None outside of requests."""
    expressions: ExpressionChecker | None = None
    """The compiler of CEL; without it expressions are stored unchecked."""
    access: FieldAccess | None = None
    """The permissions that decide on single fields; without it every field may be changed."""
    # Polled and not raised into the code: a validation in another thread cannot be cancelled from the event loop.
    interrupted: Callable[[], bool] = lambda: False
    """Return True if a lengthy validation has to stop. It is called at least once per millisecond of work."""


class Strategy(Generic[T]):
    """Rules for writing objects of a kind through the main resource, or through a sub-resource such as ``status``.

    The order on create is default → prepare_create → validate_access → validate_create; on update default →
    prepare_update → validate_update. Metadata common to all kinds (names, labels, owner references, uid …) is the API
    server's business; these methods see the hub version only.
    """

    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    verbs: tuple[str, ...] = ("get", "patch", "update")
    """Verbs of the sub-resource that is written by this strategy."""
    reset_fields: tuple[str, ...] = ()
    """Paths that a sub-resource cannot change, so that no manager owns them through it
    (docs/spec/apimachinery.md §6.5)."""
    metadata_checks: int = 1
    """Number of times that the kind's own rules validate changed metadata like that of a new object."""
    returns_deleted_object: bool = True
    """True if DELETE returns the deleted object, False if it returns a Status."""
    is_lengthy: bool = False
    """True if users can make its validation long. Then it calls the context's ``interrupted`` and may be started again
    in another thread; it ends with `cathedra.offload.DeadlineExceeded` if that returns True."""

    def default(self, obj: T, context: RequestContext) -> T:
        """Add the defaults of the kind."""
        return obj

    def default_change(self, obj: T, old: T, context: RequestContext) -> T:
        """Set the defaults of an object that is to replace ``old``. Parts that are the same objects in both have their
        defaults already."""
        return self.default(obj, context)

    def prepare_create(self, obj: T, context: RequestContext) -> T:
        """Clear the status, drop fields behind closed gates, set the first generation."""
        return obj

    def validate_access(self, obj: T, context: RequestContext) -> Sequence[FieldError]:
        """Return the errors of a new object that its namespace causes. Kubernetes reports them before those of
        metadata."""
        return ()

    def selectors(self, obj: T) -> Sequence[str]:
        """Return the device selectors that `validate_create` would compile, if they are many and therefore must be
        compiled one by one beforehand. An empty sequence means that they are few."""
        return ()

    def validate_create(self, obj: T, context: RequestContext) -> Sequence[FieldError]:
        """Return the errors of a new object besides those of its metadata, in Kubernetes' order."""
        return ()

    def prepare_update(self, new: T, old: T, context: RequestContext) -> T:
        """Keep what may not change here, drop fields behind closed gates unless in use, count the generation."""
        return new

    def validate_update(self, new: T, old: T, context: RequestContext) -> Sequence[FieldError]:
        """Everything that is wrong with a change, in Kubernetes' order."""
        return ()

    def preparation_warnings(self, obj: T) -> Sequence[str]:
        """Texts for ``Warning`` headers of a new object that are sent even if it is refused."""
        return ()

    def warnings(self, new: T, old: T | None, context: RequestContext) -> Sequence[str]:
        """Texts for ``Warning`` headers; ``old`` is None on create."""
        return ()


_SERVER_SIDE: Final[Strategy[Any]] = Strategy()


class ObjectConversion(Protocol):
    """Converts between versions by a call of another program; it takes and returns the server's own records
    of objects."""

    async def seen(self, entries: Sequence[Any], api_version: str) -> list[Any]:
        """Stored states as they are in a version, in the same order."""

    async def stored(self, obj: Any, api_version: str) -> Any:
        """Return an object of a version as it is to be stored."""

    async def between(self, obj: Any, api_version: str, wanted: str) -> Any:
        """Return an object of one version in another, neither pruned nor given defaults.

        Raises:
            KeyError: the kind has no such version.
        """


class VersionDefinition(msgspec.Struct, frozen=True):
    """One served version: its struct, and the way to the hub version and back (identity where it is the hub)."""

    name: str
    type: type[KubeObject]
    to_hub: Callable[[Any], Any] = lambda obj: obj
    from_hub: Callable[[Any], Any] = lambda obj: obj
    served_by_default: bool = True
    subresources: tuple[str, ...] | None = None
    """Sub-resources in this version where they differ from the definition's."""
    deprecation_warning: str = ""
    shown: Callable[[Any], Any] | None = None
    """Returns the form of an object in answers, if it differs from that of the struct."""
    api_version: str = ""
    """Group and version as objects name them. The definition that the version belongs to sets it."""


PROXY_VERBS: Final = ("create", "delete", "get", "patch", "update")
"""Verbs of the sub-resource ``proxy``."""


class ConnectedSubresource(msgspec.Struct, frozen=True):
    """A sub-resource with a kind of its own, which the server answers itself or passes on to a node or a pod."""

    name: str
    verbs: tuple[str, ...]
    kind: str
    """The kind of what is sent, or of the request's parameters."""
    group: str = ""
    version: str = ""
    """Of the kind; empty: the resource's own."""


class Column(msgspec.Struct, frozen=True):
    """A column of the server-side table."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class ResourceDefinition(msgspec.Struct, Generic[T], frozen=True, kw_only=True, eq=False):
    """A kind with its names, versions, rules and table. ``versions`` is in order of preference; the hub is ``type``.

    Definitions are equal if they are the same object: their functions could not be compared.
    """

    group: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    type: type[T]
    """The hub struct, in which objects are kept and strategies see them."""
    versions: tuple[VersionDefinition, ...]
    strategy: Strategy[T]
    subresources: Mapping[str, Strategy[T]] = msgspec.field(default_factory=dict)
    """Writable sub-resources that share the object, as ``status``."""
    connected: tuple[ConnectedSubresource, ...] = ()
    """Sub-resources with kinds of their own, as ``binding`` and ``exec``."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    cells: Callable[[T, float], list[Any]] | None = None
    """One table row: the object and the time now (epoch seconds) → cells in order of ``columns``."""
    field_selectors: Mapping[str, Callable[[T], str]] = msgspec.field(default_factory=dict)
    """Selectable fields besides ``metadata.name`` and ``metadata.namespace``."""
    indexed_fields: tuple[str, ...] = ()
    """Selectable fields by which the API server finds objects without testing all of them: those with about as many
    values as there are nodes, since each node's agent and driver lists and watches its own objects by them."""
    verbs: tuple[str, ...] = ALL_VERBS
    gate: str = ""
    """The feature gate without which the kind is not served."""
    deletion: DeletionRules[T] = msgspec.field(default_factory=DeletionRules)
    """Rules for deleting objects."""
    scalable: bool = False
    """True if the kind has the sub-resource ``scale``, for ``spec.replicas``."""
    name_rule: Format = dns_subdomain
    """Returns the errors of a name, in Kubernetes' words."""
    checks_generate_name: bool = True
    """True if ``generateName`` itself obeys the rule, not only the name made from it."""
    storage_version: str = ""
    """The version whose form is kept, where it is not the preferred one."""
    stored_as: GroupResource | None = None
    """The resource whose objects these are, where one kind is served in two groups."""
    stored_types: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """apiVersion → struct, if the store has objects in several versions. "" is for objects without an apiVersion."""
    conversion: ObjectConversion | None = None
    """Conversion between the store and the only version of this definition. None: by the versions' own functions."""
    equivalents: tuple[VersionDefinition, ...] = ()
    """The served versions that show the same objects, where ``versions`` has the one of the request alone."""
    by_version: Mapping[str, ResourceDefinition[T]] = msgspec.field(default_factory=dict)
    """The definitions of single versions, where objects are converted outside: the hub of each is its own version."""
    group_resource: GroupResource = GroupResource("", "")
    """Group and plural, built once: each request needs them a dozen times."""
    table: GroupResource = GroupResource("", "")
    """The resource under which the objects are kept: this one, or ``stored_as``."""

    @property
    def kept_group(self) -> str:
        """The group of the stored objects, which errors of validation name."""
        return self.table.group

    def __post_init__(self) -> None:
        # The struct is frozen, and a property would build the pair anew for each of those uses.
        force_setattr(self, "group_resource", GroupResource(self.group, self.plural))
        force_setattr(self, "table", self.stored_as or self.group_resource)
        group = f"{self.group}/" if self.group else ""
        named = [replace(version, api_version=group + version.name) for version in self.versions]
        force_setattr(self, "versions", tuple(named))

    def version(self, name: str) -> VersionDefinition:
        """Return the version of that name.

        Raises:
            KeyError: the kind has no such version.
        """
        # A kind has three versions at most: the loop is faster than a mapping, which a frozen struct would also have to
        # copy.
        for version in self.versions:
            if version.name == name:
                return version
        raise KeyError(f"{self.kind} has no version {name!r}")

    def strategy_of(self, subresource: str) -> Strategy[T]:
        """Return the rules for writes on the resource ("") or a sub-resource."""
        if not subresource:
            return self.strategy
        # A sub-resource without rules of its own is the server's work: it changes what no client could.
        return self.subresources.get(subresource, _SERVER_SIDE)

    def seen_in(self, version: str) -> ResourceDefinition[T]:
        """Return the definition that applies to requests in a version."""
        return self.by_version.get(version, self)

    def posted_kind(self, subresource: str, version: str) -> GroupVersionKind:
        """Return the kind of the bodies that are posted to a sub-resource.

        Raises:
            KeyError: there is no such sub-resource.
        """
        for connected in self.connected:
            if connected.name == subresource:
                # Options of exec and attach have no group of their own; they are served in the version of the pod
                # itself.
                own = not connected.version
                group, name = (self.group, version) if own else (connected.group, connected.version)
                return GroupVersionKind(group, name, connected.kind)
        raise KeyError(f"{self.kind} has no sub-resource {subresource!r} with a kind of its own")

    def gvk(self, version: str) -> GroupVersionKind:
        """Group, version and kind in one of the versions."""
        return GroupVersionKind(self.group, version, self.kind)


AnyDefinition: TypeAlias = ResourceDefinition[Any]
"""The definition of one kind among all: what tables, calls and the catalog hold."""
