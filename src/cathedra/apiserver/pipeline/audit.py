"""The audit log: one JSON line for each stage of a request, in the detail that the policy requires
(docs/spec/apimachinery.md §19).

A policy is the ``audit.k8s.io/v1 Policy`` of Kubernetes: rules in order, and the first that matches decides. Lines
are written when the turn of the loop ends, all that have gathered in one call. A log that cannot be written never
keeps a request from being answered.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.nesting import load_json
from cathedra.api.struct import MicroTime, encode
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.requestinfo import RequestInfo
from cathedra.files.private import private_directory, private_file

LOG: Final = logging.getLogger(__name__)
LEVELS: Final = ("None", "Metadata", "Request", "RequestResponse")
STAGES: Final = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")
_NEWLINE: Final = ord("\n")
_AGENT_LENGTH: Final = 1024
"""Limit of a user agent in an event, in characters."""


class PolicyError(ValueError):
    """The text is not an audit policy."""


class AuditResources(msgspec.Struct, frozen=True):
    """Resources of one API group that a rule matches."""

    group: str = ""
    resources: tuple[str, ...] = ()
    """``pods``, ``pods/log``, ``pods/*``, ``*/scale`` or ``*``; none mean all of the group."""
    names: tuple[str, ...] = ()

    def fit(self, info: RequestInfo) -> bool:
        """Return True if the request is about one of them."""
        if self.group != info.group:
            return False
        if not self.resources:
            return True
        if self.names and info.name not in self.names:
            return False
        whole = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        patterns = {"*", whole, f"{info.resource}/*"} | ({f"*/{info.subresource}"} if info.subresource else set())
        return not patterns.isdisjoint(self.resources)


class AuditRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of a policy: requests and the level of their events. An empty field matches everything."""

    level: str
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[AuditResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Paths outside resources; a trailing ``*`` stands for anything."""
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool = False

    def fits(self, record: RequestRecord) -> bool:
        """Return True if the rule matches the request (k8s.io/apiserver, pkg/audit/policy/checker.go)."""
        user, info = record.user, record.info
        if self.users and (user is None or user.name not in self.users):
            return False
        if self.groups and (user is None or not set(self.groups) & set(user.groups)):
            return False
        if self.verbs and info.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return info.is_resource and self._fits_resource(info)
        return not self.paths or (not info.is_resource and self._fits_path(info.path))

    def _fits_resource(self, info: RequestInfo) -> bool:
        if self.namespaces and info.namespace not in self.namespaces:
            return False
        return not self.resources or any(one.fit(info) for one in self.resources)

    def _fits_path(self, path: str) -> bool:
        return any(path == one or (one.endswith("*") and path.startswith(one[:-1])) for one in self.paths)


_UNMATCHED: Final = AuditRule(level="None")


class AuditPolicy(msgspec.Struct, frozen=True):
    """Rules in order; a request that none matches is not logged."""

    rules: tuple[AuditRule, ...] = (AuditRule(level="Metadata"),)

    def rule(self, record: RequestRecord) -> AuditRule:
        """Return the rule by which a request is logged."""
        return next((rule for rule in self.rules if rule.fits(record)), _UNMATCHED)


def load_policy(text: str) -> AuditPolicy:
    """Return the policy in a YAML document.

    Raises:
        PolicyError: it is no policy.
    """
    import yaml  # start-up time: with a policy alone

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PolicyError(f"the audit policy is no YAML: {error}") from error
    if not isinstance(document, Mapping) or document.get("kind") != "Policy":
        raise PolicyError("an audit policy has kind: Policy and apiVersion: audit.k8s.io/v1")
    shared = _stages(document.get("omitStages"), "omitStages")
    omits = document.get("omitManagedFields") is True
    rules = document.get("rules") or ()
    return AuditPolicy(tuple(_rule(rule, f"rules[{number}]", shared, omits) for number, rule in enumerate(rules)))


def _rule(given: Any, path: str, shared: frozenset[str], omits: bool) -> AuditRule:
    """Return a rule with the omissions of the policy for all rules."""
    if not isinstance(given, Mapping) or given.get("level") not in LEVELS:
        raise PolicyError(f"{path}.level: must be one of {', '.join(LEVELS)}")
    resources = tuple(
        _resources(one, f"{path}.resources[{number}]") for number, one in enumerate(given.get("resources") or ())
    )
    rule = AuditRule(
        level=given["level"],
        users=_texts(given.get("users")),
        groups=_texts(given.get("userGroups")),
        verbs=_texts(given.get("verbs")),
        resources=resources,
        namespaces=_texts(given.get("namespaces")),
        paths=_texts(given.get("nonResourceURLs")),
        omit_stages=shared | _stages(given.get("omitStages"), f"{path}.omitStages"),
        # A rule that sets the field overrides the policy in both directions.
        omit_managed_fields=given.get("omitManagedFields", omits) is True,
    )
    if rule.paths and (rule.resources or rule.namespaces):
        raise PolicyError(f"{path}.nonResourceURLs: rules cannot apply to both regular resources and non-resource URLs")
    for number, one in enumerate(rule.paths):
        if one != "*" and (not one.startswith("/") or "*" in one[:-1]):
            text = "must begin with '/', and may have a wildcard '*' at its end only"
            raise PolicyError(f"{path}.nonResourceURLs[{number}]: {text}")
    return rule


def _resources(given: Any, path: str) -> AuditResources:
    if not isinstance(given, Mapping):
        raise PolicyError(f"{path}: must have a group and resources")
    found = AuditResources(
        str(given.get("group") or ""), _texts(given.get("resources")), _texts(given.get("resourceNames"))
    )
    if found.names and not found.resources:
        raise PolicyError(f"{path}.resourceNames: using resourceNames requires at least one resource")
    return found


def _stages(given: Any, path: str) -> frozenset[str]:
    found = _texts(given)
    for number, stage in enumerate(found):
        if stage not in STAGES:
            raise PolicyError(f"{path}[{number}]: must be one of {', '.join(STAGES)}")
    return frozenset(found)


def _texts(given: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in given or ()) if isinstance(given or (), Sequence) else ()


class AuditLog:
    """The audit log of one server."""

    def __init__(self, path: Path, policy: AuditPolicy) -> None:
        if not path.parent.exists():
            private_directory(path.parent)
        descriptor = os.open(private_file(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        # Without a buffer: it may split a batch into several calls.
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._policy = policy
        self._lines: list[bytes] = []
        self._torn = False
        """True if the file ends within a line."""
        self.written = 0

    def level(self, record: RequestRecord) -> str:
        """Return the level at which the request is logged."""
        return self._policy.rule(record).level

    def write(self, record: RequestRecord, stage: str, received: float, now: float) -> None:
        """Log one stage of a request; times in epoch seconds."""
        rule = self._policy.rule(record)
        if rule.level == "None" or stage in rule.omit_stages:
            return
        event = _event(record, rule, stage, received, now)
        if not self._lines:
            # All events of this turn of the loop go out in one write.
            asyncio.get_running_loop().call_soon(self._flush)
        self._lines.append(encode(event) + b"\n")

    def close(self) -> None:
        """Write the lines that wait, and close the file."""
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        if not lines or self._file.closed:
            return
        try:
            self._append(b"".join(lines))
            self.written += len(lines)
        except OSError as error:
            LOG.error("%d audit events could not be written: %s", len(lines), error)

    def _append(self, data: bytes) -> None:
        """Append whole lines to the file."""
        # One call appends whole lines, which the kernel keeps apart from lines of other processes (O_APPEND). A second
        # call goes on where a full disk, or a limit, ended the first.
        rest = memoryview(b"\n" + data if self._torn else data)
        while rest:
            written = self._file.write(rest)
            self._torn = rest[written - 1] != _NEWLINE
            rest = rest[written:]


def _event(record: RequestRecord, rule: AuditRule, stage: str, received: float, now: float) -> dict[str, Any]:
    level = rule.level
    query = f"?{record.query.decode('latin-1')}" if record.query else ""
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level,
        "auditID": record.audit_id,
        "stage": stage,
        "requestURI": f"{record.info.path}{query}",
        "verb": record.info.verb,
        "user": _user(record.user),
        "sourceIPs": [record.source] if record.source else [],
        "userAgent": shortened_agent(record.user_agent),
        "requestReceivedTimestamp": MicroTime(received),
        "stageTimestamp": MicroTime(now),
    }
    if record.impersonated is not None:
        event["impersonatedUser"] = _user(record.impersonated)
    if reference := record.object_ref():
        event["objectRef"] = reference
    if record.status:
        # The empty metadata is part of Kubernetes' Status, and log processors validate events against its schema.
        event["responseStatus"] = {"metadata": {}, "code": record.status}
    if record.allowed is not None:
        event["annotations"] = {
            "authorization.k8s.io/decision": "allow" if record.allowed else "forbid",
            "authorization.k8s.io/reason": "",
            **record.annotations,
        }
    if level in {"Request", "RequestResponse"} and (body := _body(record.request_body)) is not None:
        event["requestObject"] = _shown(body, rule)
    if level == "RequestResponse" and (body := _body(record.response_body)) is not None:
        event["responseObject"] = _shown(body, rule)
    return event


def _shown(body: Any, rule: AuditRule) -> Any:
    """Return a body as the rule shows it: an object, or each object of a list, without managed fields."""
    if not rule.omit_managed_fields or not isinstance(body, dict):
        return body
    items = body.get("items")
    if isinstance(items, list):
        return {**body, "items": [_shown(item, rule) for item in items]}
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return body
    return {**body, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def shortened_agent(agent: str) -> str:
    """Return a user agent as audit events show it: Kubernetes cuts it, too (apiserver/pkg/audit/request.go)."""
    return agent if len(agent) <= _AGENT_LENGTH else f"{agent[:_AGENT_LENGTH]}...TRUNCATED"


def _user(user: UserInfo | None) -> dict[str, Any]:
    if user is None:
        return {}
    shown: dict[str, Any] = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        shown["uid"] = user.uid
    return shown


def _body(raw: bytes) -> Any:
    """Return the values of a JSON body; None for any other form."""
    if not raw:
        return None
    try:
        return load_json(raw)
    except (msgspec.DecodeError, ValueError):
        return None
