"""Reviews: requests about users and their rights, created like objects and never stored
(docs/spec/apimachinery.md §14 and §15.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.core import authentication_v1, authentication_v1alpha1, authentication_v1beta1, authorization_v1
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.field import ErrorList
from cathedra.api.scheme import GroupResource, kind_of
from cathedra.api.status import bad_request, invalid
from cathedra.api.struct import Time, replace, reshape
from cathedra.apiserver.authentication.authenticator import BootstrapTokens, authenticated
from cathedra.apiserver.authentication.serviceaccounts import ISSUER
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes, Decision, Verdict
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.kinds.definition import AnyDefinition, ResourceDefinition, Strategy, VersionDefinition

_AUTHN: Final = "authentication.k8s.io"
_AUTHZ: Final = "authorization.k8s.io"


class Review(msgspec.Struct, frozen=True):
    """A kind of review, and the function that answers it."""

    definition: AnyDefinition
    answer: Callable[[ServerContext, Call, Any], Any]


def _definition(
    kind: type[KubeObject], group: str, plural: str, *older: type[KubeObject], namespaced: bool = False
) -> AnyDefinition:
    """Return the definition of a kind that is never stored; ``older`` versions have the same fields."""
    return ResourceDefinition(
        group=group,
        kind=kind.__name__,
        plural=plural,
        singular=kind.__name__.lower(),
        namespaced=namespaced,
        type=kind,
        versions=tuple(VersionDefinition(kind_of(one).version, one) for one in (kind, *older)),
        strategy=Strategy(),
        verbs=("create",),
    )


def _self_review(server: ServerContext, call: Call, review: Any) -> Any:
    """Answer a SelfSubjectReview of any version: the user of the request."""
    status = reshape(authentication_v1.SelfSubjectReviewStatus(user_info=_shown(call.user)), type(review.status))
    return replace(
        review, metadata=replace(review.metadata, creation_timestamp=Time(server.clock.now())), status=status
    )


def _token_review(server: ServerContext, call: Call, review: authentication_v1.TokenReview) -> Any:
    """Answer a TokenReview: the user of a token."""
    token, wanted = review.spec.token, review.spec.audiences
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    found = server.tokens.review(token, wanted or (ISSUER,))
    if found is None:
        user = server.static_tokens.user_of(token) or BootstrapTokens(server.registry, server.clock).user_of(token)
        # Tokens without an audience are for the API itself and for nothing else.
        meant = tuple(one for one in wanted if one == ISSUER)
        found = (user, meant) if user is not None and (meant or not wanted) else None
    if found is None:
        return replace(review, status=authentication_v1.TokenReviewStatus(error="invalid bearer token"))
    user, audiences = found
    return replace(
        review,
        status=authentication_v1.TokenReviewStatus(
            authenticated=True, user=_shown(authenticated(user)), audiences=audiences if wanted else (ISSUER,)
        ),
    )


def _self_access(server: ServerContext, call: Call, review: authorization_v1.SelfSubjectAccessReview) -> Any:
    """Answer a SelfSubjectAccessReview: the rights of the caller."""
    _check(review.metadata, _attribute_errors(review.spec), namespace="")
    return replace(review, status=_decided(server, call.user, review.spec))


def _access(server: ServerContext, call: Call, review: authorization_v1.SubjectAccessReview) -> Any:
    """Answer a SubjectAccessReview: the rights of a user."""
    _check(review.metadata, [*_attribute_errors(review.spec), *_subject_errors(review.spec)], namespace="")
    return replace(review, status=_decided(server, _subject(review.spec), review.spec))


def _local_access(server: ServerContext, call: Call, review: authorization_v1.LocalSubjectAccessReview) -> Any:
    """Answer a LocalSubjectAccessReview: the rights of a user in one namespace."""
    errors = ErrorList([*_attribute_errors(review.spec), *_subject_errors(review.spec)])
    spec = review.spec
    if spec.resource_attributes is not None and spec.resource_attributes.namespace != call.namespace:
        errors.invalid(
            "spec.resourceAttributes.namespace", spec.resource_attributes.namespace, "must match metadata.namespace"
        )
    if spec.non_resource_attributes is not None:
        errors.invalid("spec.nonResourceAttributes", None, "disallowed on this kind of request")
    _check(review.metadata, errors, namespace=call.namespace)
    status = _decided(server, _subject(spec), spec)
    return replace(review, metadata=replace(review.metadata, namespace=call.namespace), status=status)


def _self_rules(server: ServerContext, call: Call, review: authorization_v1.SelfSubjectRulesReview) -> Any:
    """Answer a SelfSubjectRulesReview: the rules that the caller holds in one namespace."""
    namespace = review.spec.namespace
    if not namespace:
        raise bad_request("no namespace on request")
    held = server.rules(call.user, namespace)
    resources = tuple(
        authorization_v1.ResourceRule(
            verbs=rule.verbs,
            api_groups=rule.api_groups,
            resources=rule.resources,
            resource_names=rule.resource_names,
        )
        for rule in held.rules
        if rule.resources
    )
    paths = tuple(
        authorization_v1.NonResourceRule(verbs=rule.verbs, non_resource_urls=rule.non_resource_urls)
        for rule in held.rules
        if rule.non_resource_urls
    )
    status = authorization_v1.SubjectRulesReviewStatus(
        resource_rules=resources, non_resource_rules=paths, incomplete=bool(held.error), evaluation_error=held.error
    )
    return replace(review, spec=authorization_v1.SelfSubjectRulesReviewSpec(), status=status)


def _attribute_errors(spec: Any) -> ErrorList:
    errors = ErrorList()
    if spec.resource_attributes is not None and spec.non_resource_attributes is not None:
        errors.invalid(
            "spec.nonResourceAttributes",
            spec.non_resource_attributes,
            "cannot be specified in combination with resourceAttributes",
        )
    if spec.resource_attributes is None and spec.non_resource_attributes is None:
        errors.invalid(
            "spec.resourceAttributes",
            None,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )
    return errors


def _subject_errors(spec: authorization_v1.SubjectAccessReviewSpec) -> ErrorList:
    errors = ErrorList()
    if not spec.user and not spec.groups:
        errors.invalid("spec.user", spec.user, "at least one of user or group must be specified")
    return errors


def _check(metadata: ObjectMeta, errors: list[Any], *, namespace: str) -> None:
    found = ErrorList(errors)
    if replace(metadata, managed_fields=(), namespace="") != ObjectMeta() or metadata.namespace not in {"", namespace}:
        found.invalid("metadata", metadata, "must be empty except for namespace" if namespace else "must be empty")
    if found:
        raise invalid(_AUTHZ, "", "", found)


def _decided(server: ServerContext, user: UserInfo, spec: Any) -> authorization_v1.SubjectAccessReviewStatus:
    decision: Decision = server.authorizer.authorize(_question(user, spec))
    return authorization_v1.SubjectAccessReviewStatus(
        allowed=decision.allowed, denied=decision.verdict is Verdict.DENY, reason=decision.reason
    )


def _question(user: UserInfo, spec: Any) -> Attributes:
    wanted = spec.resource_attributes
    if wanted is None:
        path: authorization_v1.NonResourceAttributes = spec.non_resource_attributes
        return Attributes(user, path.verb, path=path.path)
    return Attributes(
        user,
        wanted.verb,
        wanted.group,
        wanted.version,
        wanted.resource,
        wanted.subresource,
        wanted.namespace,
        wanted.name,
        field_selector=_selector(wanted.field_selector),
        label_selector=_selector(wanted.label_selector),
    )


def _selector(wanted: Any) -> str:
    """Return a selector as text, without the requirements that have no text."""
    if wanted is None:
        return ""
    signs = {"In": "=", "NotIn": "!="}
    terms = (
        f"{one.key}{signs[one.operator]}{one.values[0]}"
        for one in wanted.requirements
        if one.operator in signs and len(one.values) == 1
    )
    text: str = wanted.raw_selector or ",".join(terms)
    return text


def _subject(spec: authorization_v1.SubjectAccessReviewSpec) -> UserInfo:
    return UserInfo(spec.user, spec.groups, spec.uid, spec.extra)


def _shown(user: UserInfo) -> authentication_v1.UserInfo:
    return authentication_v1.UserInfo(username=user.name, uid=user.uid, groups=user.groups, extra=dict(user.extra))


def _reviews() -> Iterator[Review]:
    self_reviews = (authentication_v1beta1.SelfSubjectReview, authentication_v1alpha1.SelfSubjectReview)
    yield Review(
        _definition(authentication_v1.SelfSubjectReview, _AUTHN, "selfsubjectreviews", *self_reviews), _self_review
    )
    yield Review(_definition(authentication_v1.TokenReview, _AUTHN, "tokenreviews"), _token_review)
    yield Review(
        _definition(authorization_v1.SelfSubjectAccessReview, _AUTHZ, "selfsubjectaccessreviews"), _self_access
    )
    yield Review(_definition(authorization_v1.SubjectAccessReview, _AUTHZ, "subjectaccessreviews"), _access)
    yield Review(
        _definition(authorization_v1.LocalSubjectAccessReview, _AUTHZ, "localsubjectaccessreviews", namespaced=True),
        _local_access,
    )
    yield Review(_definition(authorization_v1.SelfSubjectRulesReview, _AUTHZ, "selfsubjectrulesreviews"), _self_rules)


REVIEWS: Final[Mapping[GroupResource, Review]] = {review.definition.group_resource: review for review in _reviews()}
"""Every kind of review by its resource."""
