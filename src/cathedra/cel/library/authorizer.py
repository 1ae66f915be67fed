"""The authorizer: permission checks as values that are built step by step (docs/spec/cel.md §10.5).

Who decides is handed in as a function of the finished question; nothing here knows where the answer comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from cathedra.cel.library.formats import dns_label_errors, dns_subdomain_errors
from cathedra.cel.values import Failure, Opaque

__all__ = ["FUNCTIONS", "AccessAnswer", "AccessQuestion", "AuthorizerValue", "Decide", "ResourceCheck", "User"]


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class AccessQuestion:
    """May the user do this? With ``path`` it is about a path, else about a resource."""

    user: User
    verb: str = ""
    path: str | None = None
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclass(frozen=True, slots=True)
class AccessAnswer:
    """What the authorizer says; ``error`` is set if it could not decide."""

    allowed: bool
    reason: str = ""
    error: str | None = None


Decide = Callable[[AccessQuestion], AccessAnswer]


class _Check(Opaque):
    __slots__ = ("decide", "question")

    def __init__(self, decide: Decide, question: AccessQuestion) -> None:
        self.decide, self.question = decide, question

    def same(self, other: Any) -> bool:
        """The same question."""
        return bool(self.question == other.question)

    def check(self, verb: str) -> AccessDecision:
        """Ask."""
        return AccessDecision(self.decide(replace(self.question, verb=verb)))


class AuthorizerValue(_Check):
    """Where every check begins: an authorizer for one user."""

    __slots__ = ()
    type_name = "kubernetes.authorization.Authorizer"


class PathCheck(_Check):
    """About a path."""

    __slots__ = ()
    type_name = "kubernetes.authorization.PathCheck"


class GroupCheck(_Check):
    """An API group, not yet a question."""

    __slots__ = ()
    type_name = "kubernetes.authorization.GroupCheck"


class ResourceCheck(_Check):
    """About a resource."""

    __slots__ = ()
    type_name = "kubernetes.authorization.ResourceCheck"


class AccessDecision(Opaque):
    """The answer as a value."""

    __slots__ = ("answer",)
    type_name = "kubernetes.authorization.Decision"

    def __init__(self, answer: AccessAnswer) -> None:
        self.answer = answer

    def same(self, other: Any) -> bool:
        """The same answer."""
        return bool(self.answer == other.answer)


def _path(authorizer: Any, path: Any) -> Any:
    if not path.strip():
        return Failure("path must not be empty")
    return PathCheck(authorizer.decide, replace(authorizer.question, path=path))


def _resource(group: Any, resource: Any) -> Any:
    if not resource.strip():
        return Failure("resource must not be empty")
    return ResourceCheck(group.decide, replace(group.question, resource=resource))


def _service_account(authorizer: Any, namespace: Any, name: Any) -> Any:
    if dns_subdomain_errors(name):
        return Failure("Invalid service account name")
    if dns_label_errors(namespace):
        return Failure("Invalid service account namespace")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    user = User(name=f"system:serviceaccount:{namespace}:{name}", groups=groups)
    return AuthorizerValue(authorizer.decide, AccessQuestion(user))


def _with(field: str) -> Callable[[Any, Any], ResourceCheck]:
    return lambda check, value: ResourceCheck(check.decide, replace(check.question, **{field: value}))


FUNCTIONS: Final[dict[str, Any]] = {
    "authorizer_path": _path,
    "authorizer_group": lambda a, group: GroupCheck(a.decide, replace(a.question, group=group)),
    "authorizer_serviceaccount": _service_account,
    "groupcheck_resource": _resource,
    "resourcecheck_subresource": _with("subresource"),
    "resourcecheck_namespace": _with("namespace"),
    "resourcecheck_name": _with("name"),
    "authorizer_fieldselector": _with("field_selector"),
    "authorizer_labelselector": _with("label_selector"),
    "pathcheck_check": lambda check, verb: check.check(verb),
    "resourcecheck_check": lambda check, verb: check.check(verb),
    "decision_errored": lambda decision: decision.answer.error is not None,
    "decision_error": lambda decision: decision.answer.error or "",
    "decision_allowed": lambda decision: decision.answer.allowed,
    "decision_reason": lambda decision: decision.answer.reason,
}
