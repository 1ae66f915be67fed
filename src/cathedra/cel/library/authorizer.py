"""The authorizer: permission checks as values that are built step by step (docs/spec/cel.md §10.5).

The function that decides a complete check is passed in, so this module does not depend on an authorizer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from cathedra.cel.library.costs import Cost, scan, size
from cathedra.cel.library.estimates import LIST_BASE, Estimate, EstimatedCall, Range
from cathedra.cel.library.formats import dns_label_errors, dns_subdomain_errors
from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.values import CELValue, Failure, Opaque


class User(msgspec.Struct, frozen=True):
    """The user whose permissions are checked."""

    name: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class AccessQuestion(msgspec.Struct, frozen=True):
    """Return True if the user has the right; with ``path`` on a path, otherwise on a resource."""

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


class AccessAnswer(msgspec.Struct, frozen=True):
    """Result of a permission check. ``error`` is set if the authorizer could not decide."""

    allowed: bool
    reason: str = ""
    error: str | None = None


Decide = Callable[[AccessQuestion], AccessAnswer]


class _Check(Opaque):
    __slots__ = ("decide", "question")

    def __init__(self, decide: Decide, question: AccessQuestion) -> None:
        self.decide, self.question = decide, question

    def same(self, other: CELValue) -> bool:
        """Return True if both are the same check."""
        return bool(self.question == other.question)

    def check(self, verb: str) -> AccessDecision:
        """Return the authorizer's decision for a verb."""
        return AccessDecision(self.decide(replace(self.question, verb=verb)))


class AuthorizerValue(_Check):
    """An authorizer for one user, with which every check begins."""

    __slots__ = ()
    type_name = "kubernetes.authorization.Authorizer"


class PathCheck(_Check):
    """A check of a path."""

    __slots__ = ()
    type_name = "kubernetes.authorization.PathCheck"


class GroupCheck(_Check):
    """An API group, not yet a question."""

    __slots__ = ()
    type_name = "kubernetes.authorization.GroupCheck"


class ResourceCheck(_Check):
    """A check of a resource."""

    __slots__ = ()
    type_name = "kubernetes.authorization.ResourceCheck"


class AccessDecision(Opaque):
    """The answer as a value."""

    __slots__ = ("answer",)
    type_name = "kubernetes.authorization.Decision"

    def __init__(self, answer: AccessAnswer) -> None:
        self.answer = answer

    def same(self, other: CELValue) -> bool:
        """Return True if both have the same decision."""
        return bool(self.answer == other.answer)


def _path(authorizer: CELValue, path: CELValue) -> CELValue:
    if not path.strip():
        return Failure("path must not be empty")
    return PathCheck(authorizer.decide, replace(authorizer.question, path=path))


def _resource(group: CELValue, resource: CELValue) -> CELValue:
    if not resource.strip():
        return Failure("resource must not be empty")
    return ResourceCheck(group.decide, replace(group.question, resource=resource))


def _service_account(authorizer: CELValue, namespace: CELValue, name: CELValue) -> CELValue:
    if dns_subdomain_errors(name):
        return Failure("Invalid service account name")
    if dns_label_errors(namespace):
        return Failure("Invalid service account namespace")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    user = User(name=f"system:serviceaccount:{namespace}:{name}", groups=groups)
    return AuthorizerValue(authorizer.decide, AccessQuestion(user))


def _with(field: str) -> Callable[[CELValue, CELValue], ResourceCheck]:
    return lambda check, value: ResourceCheck(check.decide, replace(check.question, **{field: value}))


def _requirements(args: Sequence[CELValue], _: CELValue) -> int:
    length = size(args[1])
    return 10 + scan(length) + math.ceil(math.ceil(length * 0.5) * 50.0)


def _estimated_requirements(call: EstimatedCall) -> Estimate:
    length = call.size(1)
    return LIST_BASE.plus(length.scaled(0.1)).plus(length.scaled(0.5).scaled(50.0)), None


_CHECK: Final = 350_000
CHECKED: Final = Cost(lambda args, result: _CHECK, lambda call: (Range(_CHECK, _CHECK), None), named=True)
"""A question to the authorizer."""
REQUIREMENTS: Final = Cost(_requirements, _estimated_requirements, named=True)
"""A selector is read: a requirement for each two characters at worst."""

OVERLOADS: Final[Functions] = {
    "path": (declare("authorizer_path: Authorizer., string -> PathCheck", _path),),
    "group": (
        declare(
            "authorizer_group: Authorizer., string -> GroupCheck",
            lambda a, group: GroupCheck(a.decide, replace(a.question, group=group)),
        ),
    ),
    "serviceAccount": (
        declare("authorizer_serviceaccount: Authorizer., string, string -> Authorizer", _service_account),
    ),
    "resource": (declare("groupcheck_resource: GroupCheck., string -> ResourceCheck", _resource),),
    "subresource": (
        declare("resourcecheck_subresource: ResourceCheck., string -> ResourceCheck", _with("subresource")),
    ),
    "namespace": (declare("resourcecheck_namespace: ResourceCheck., string -> ResourceCheck", _with("namespace")),),
    "name": (declare("resourcecheck_name: ResourceCheck., string -> ResourceCheck", _with("name")),),
    "fieldSelector": (
        declare(
            "authorizer_fieldselector: ResourceCheck., string -> ResourceCheck", _with("field_selector"), REQUIREMENTS
        ),
    ),
    "labelSelector": (
        declare(
            "authorizer_labelselector: ResourceCheck., string -> ResourceCheck", _with("label_selector"), REQUIREMENTS
        ),
    ),
    "check": (
        declare("pathcheck_check: PathCheck., string -> Decision", lambda check, verb: check.check(verb), CHECKED),
        declare(
            "resourcecheck_check: ResourceCheck., string -> Decision", lambda check, verb: check.check(verb), CHECKED
        ),
    ),
    "errored": (declare("decision_errored: Decision. -> bool", lambda decision: decision.answer.error is not None),),
    "error": (declare("decision_error: Decision. -> string", lambda decision: decision.answer.error or ""),),
    "allowed": (declare("decision_allowed: Decision. -> bool", lambda decision: decision.answer.allowed),),
    "reason": (declare("decision_reason: Decision. -> string", lambda decision: decision.answer.reason),),
}
