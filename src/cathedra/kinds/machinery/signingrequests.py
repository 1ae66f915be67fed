"""Certificate signing requests. The server records the requester; approving and signing are sub-resources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from cathedra.api.core import certificates_v1
from cathedra.api.field import ErrorList
from cathedra.api.struct import Time, replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age, human_duration
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition
from cathedra.kinds.strategies import SpecStrategy, StatusStrategy

Request = certificates_v1.CertificateSigningRequest
Condition = certificates_v1.CertificateSigningRequestCondition
SHORTEST_SECONDS: Final = 600
_DECISIONS: Final = frozenset({"Approved", "Denied"})
_PERMANENT: Final = _DECISIONS | {"Failed"}


SIGNING_REQUEST_COLUMNS: Final = (
    NAME,
    AGE,
    Column("SignerName", description="The signer that is asked."),
    Column("Requestor", description="The requesting user."),
    Column("RequestedDuration", description="How long the certificate is to hold."),
    Column("Condition", description="What has become of the request."),
)


def signing_request_cells(request: certificates_v1.CertificateSigningRequest, now: float) -> list[Any]:
    """Return the cells of a CertificateSigningRequest."""
    spec = request.spec
    seconds = spec.expiration_seconds
    return [
        request.metadata.name,
        age(request.metadata.creation_timestamp, now),
        spec.signer_name or "<none>",
        spec.username,
        "<none>" if seconds is None else human_duration(seconds),
        _condition(request.status),
    ]


def _condition(status: certificates_v1.CertificateSigningRequestStatus) -> str:
    types = {condition.type for condition in status.conditions}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        words.append("Failed")
    if status.certificate:
        words.append("Issued")
    return ",".join(words)


class SigningRequestStrategy(SpecStrategy[Request]):
    """The main resource: its spec never changes, and its user is that of the request."""

    def prepare_create(self, obj: Request, context: RequestContext) -> Request:
        """Record the requester. A new request has no approval."""
        # Outside of a request there is no requester. Fields of one in the object are never kept.
        spec = replace(obj.spec, username="", uid="", groups=(), extra={})
        if (user := context.user) is not None:
            spec = replace(spec, username=user.name, uid=user.uid, groups=user.groups, extra=dict(user.extra))
        return replace(super().prepare_create(obj, context), spec=spec)

    def validate_create(self, obj: Request, context: RequestContext) -> ErrorList:
        """Require a request that can be read, a signer, usages, and ten minutes at least."""
        # With the first request: it loads the cryptography library.
        from cathedra.certificates.requests import BadRequest, read_request

        errors, spec = ErrorList(), obj.spec
        if not spec.request:
            errors.required("spec.request", "must be specified")
        else:
            try:
                read_request(spec.request)
            except BadRequest as error:
                errors.invalid("spec.request", spec.request, str(error))
        if not spec.usages:
            errors.required("spec.usages")
        if not spec.signer_name:
            errors.required("spec.signerName")
        elif "/" not in spec.signer_name.strip("/"):
            errors.invalid(
                "spec.signerName",
                spec.signer_name,
                'must be a fully qualified domain and path of the form "example.com/signer-name"',
            )
        if spec.expiration_seconds is not None and spec.expiration_seconds < SHORTEST_SECONDS:
            errors.invalid(
                "spec.expirationSeconds",
                spec.expiration_seconds,
                f"may not specify a duration less than {SHORTEST_SECONDS} seconds (10 minutes)",
            )
        return errors

    def prepare_update(self, new: Request, old: Request, context: RequestContext) -> Request:
        """Nothing but metadata changes here."""
        return replace(new, spec=old.spec, status=old.status)


class ApprovalStrategy(StatusStrategy[Request]):
    """The sub-resource ``approval``: conditions only; decisions stay."""

    def prepare_update(self, new: Request, old: Request, context: RequestContext) -> Request:
        """Keep spec and certificate, and note when conditions came."""
        conditions = _timed(new.status.conditions, old, context.now)
        return replace(new, spec=old.spec, status=replace(old.status, conditions=conditions))

    def validate_update(self, new: Request, old: Request, context: RequestContext) -> ErrorList:
        """Require that approved and denied exclude each other, and neither is taken back."""
        return _condition_errors(new, old)


class IssuingStrategy(StatusStrategy[Request]):
    """The sub-resource ``status``: the certificate, and conditions except those of approval."""

    def prepare_update(self, new: Request, old: Request, context: RequestContext) -> Request:
        """Keep the spec and the decision."""
        decided = tuple(one for one in old.status.conditions if one.type in _DECISIONS)
        others = _timed([one for one in new.status.conditions if one.type not in _DECISIONS], old, context.now)
        return replace(new, spec=old.spec, status=replace(new.status, conditions=(*decided, *others)))

    def validate_update(self, new: Request, old: Request, context: RequestContext) -> ErrorList:
        """Require that a certificate is issued once."""
        errors = _condition_errors(new, old)
        if old.status.certificate and new.status.certificate != old.status.certificate:
            errors.forbidden("status.certificate", "updates may not modify existing certificate content")
        return errors


def _timed(conditions: Iterable[Condition], old: Request, now: float) -> tuple[Condition, ...]:
    """Return the conditions with their times. A condition whose status is as stored keeps its transition time."""
    stored = {one.type: one for one in reversed(old.status.conditions)}
    return tuple(_dated(condition, stored.get(condition.type), now) for condition in conditions)


def _dated(condition: Condition, known: Condition | None, now: float) -> Condition:
    updated = condition.last_update_time or Time(now)
    changed = condition.last_transition_time
    if changed is None:
        kept = known is not None and known.status == condition.status
        changed = known.last_transition_time if kept and known is not None else Time(now)
    return replace(condition, last_update_time=updated, last_transition_time=changed)


def _condition_errors(new: Request, old: Request) -> ErrorList:
    errors = ErrorList()
    types = {condition.type for condition in new.status.conditions}
    if types >= _DECISIONS:
        errors.invalid("status.conditions", "Denied", "Approved and Denied conditions are mutually exclusive")
    for condition in old.status.conditions:
        if condition.type in _PERMANENT and condition.type not in types:
            errors.forbidden("status.conditions", f'updates may not remove a condition of type "{condition.type}"')
    for position, condition in enumerate(new.status.conditions):
        if condition.type in _PERMANENT and condition.status != "True":
            errors.not_supported(f"status.conditions[{position}].status", condition.status, ["True"])
    return errors


def signing_request_definition() -> ResourceDefinition[certificates_v1.CertificateSigningRequest]:
    """Return the definition of certificatesigningrequests."""
    return BuiltinKind(
        certificates_v1.CertificateSigningRequest,
        "certificatesigningrequests",
        namespaced=False,
        table=(SIGNING_REQUEST_COLUMNS, signing_request_cells),
        short_names=("csr",),
        field_selectors={"spec.signerName": lambda request: request.spec.signer_name},
        strategy=SigningRequestStrategy(),
        status=IssuingStrategy(),
        subresources={"approval": ApprovalStrategy()},
    ).definition()
