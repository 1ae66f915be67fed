"""The status of validating admission policies: what is wrong with their expressions, against the schemas of the kinds
that they are about (KEP-3488).

Schemas come from the server's OpenAPI documents, one for each group version that a policy names, when a policy has
changed. A kind without a schema is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from cathedra.api.core.admissionregistration_v1 import NamedRuleWithOperations, ValidatingAdmissionPolicy
from cathedra.api.nesting import WRAPPED_DEPTH, load_json
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError
from cathedra.api.struct import to_dict
from cathedra.client.client import Client
from cathedra.client.resources import resource_ref
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.controllers.controller import ControllerContext

if TYPE_CHECKING:
    from cathedra.cel.admission import KindSchema

_POLICIES: Final = resource_ref(ValidatingAdmissionPolicy, "validatingadmissionpolicies", namespaced=False)
_MOST_KINDS: Final = 10
_MARK: Final = "x-kubernetes-group-version-kind"


class ValidatingAdmissionPolicyStatusController:
    """Checks every policy once for each of its generations."""

    name = "validatingadmissionpolicy-status-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client.as_manager(self.name)
        self._clock = context.clock
        self._queue: WorkQueue[str] = context.queue()
        self._policies = context.informers.of(_POLICIES)
        self._policies.add_handler(
            on_add=lambda policy: self._queue.add(policy.metadata.name),
            on_update=lambda _, policy: self._queue.add(policy.metadata.name),
        )

    async def run(self) -> None:
        """Reconcile objects until cancelled."""
        await self._policies.wait_synced()
        await run_workers(self._queue, self._reconcile)

    async def _reconcile(self, name: str) -> None:
        policy = self._policies.store.get("", name)
        if policy is None or policy.metadata.generation <= policy.status.observed_generation:
            return
        warnings = await self._warnings(policy)
        checked = {"expressionWarnings": warnings} if warnings else {}
        status = {"observedGeneration": policy.metadata.generation, "typeChecking": checked}
        await self._client.resource(_POLICIES).apply(name, {"status": status}, "status")

    async def _warnings(self, policy: ValidatingAdmissionPolicy) -> list[dict[str, str]]:
        # start-up time: CEL comes with the first policy
        from cathedra.cel.admission import type_warnings

        schemas = _Schemas(self._client)
        kinds = [found for gvk in await _kinds(policy, schemas) if (found := await schemas.of(gvk)) is not None]
        params = None
        if policy.spec.param_kind is not None:
            group, _, version = policy.spec.param_kind.api_version.rpartition("/")
            params = await schemas.of(GroupVersionKind(group, version, policy.spec.param_kind.kind))
        # Kubernetes also distinguishes the types of different checks by the time.
        mark = str(int(self._clock.now() % 1 * 1e9))
        warnings = type_warnings(to_dict(policy.spec), kinds, params, mark)
        return [{"fieldRef": one.field, "warning": one.text} for one in warnings]


async def _kinds(policy: ValidatingAdmissionPolicy, schemas: _Schemas) -> list[GroupVersionKind]:
    """Return the kinds that a policy names, sorted; a rule with ten kinds ends the search."""
    constraints = policy.spec.match_constraints
    found: set[GroupVersionKind] = set()
    for rule in constraints.resource_rules if constraints is not None else ():
        count = 0
        for group, version, resource in _resources(rule):
            kind = await schemas.kind_of(group, version, resource)
            if kind is None:
                continue
            found.add(kind)
            count += 1
            if count == _MOST_KINDS:
                return _sorted(found)
    return _sorted(found)


def _sorted(kinds: set[GroupVersionKind]) -> list[GroupVersionKind]:
    return sorted(kinds, key=lambda one: (one.group, one.version, one.kind))


def _resources(rule: NamedRuleWithOperations) -> Iterator[tuple[str, str, str]]:
    """Yield group, version and resource of a rule, without wildcard groups or versions and without sub-resources."""
    if any("*" in text for text in (*rule.api_groups, *rule.api_versions)):
        return
    resources = sorted(one for one in rule.resources if "*" not in one and "/" not in one)
    for group in sorted(rule.api_groups):
        for version in sorted(rule.api_versions):
            for resource in resources:
                yield group, version, resource


class _Schemas:
    """Cache of the server's OpenAPI documents."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._documents: dict[tuple[str, str], Mapping[str, Any]] = {}

    async def kind_of(self, group: str, version: str, resource: str) -> GroupVersionKind | None:
        """Return the kind of a resource; None if it is not served."""
        paths = (await self._document(group, version)).get("paths") or {}
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        for path in (f"{prefix}/namespaces/{{namespace}}/{resource}", f"{prefix}/{resource}"):
            for operation in paths.get(path, {}).values():
                if isinstance(operation, dict) and _MARK in operation:
                    mark = operation[_MARK]
                    return GroupVersionKind(mark["group"], mark["version"], mark["kind"])
        return None

    async def of(self, kind: GroupVersionKind) -> KindSchema | None:
        """Return the schema of a kind; None if there is none."""
        # start-up time: CEL comes with the first policy
        from cathedra.cel.admission import KindSchema

        document = await self._document(kind.group, kind.version)
        components = (document.get("components") or {}).get("schemas") or {}
        mark = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        name = f"{kind.group}/{kind.version}, Kind={kind.kind}"
        for schema in components.values():
            if mark in (schema.get(_MARK) or ()):
                return KindSchema(name, kind.kind, schema, components)
        return None

    async def _document(self, group: str, version: str) -> Mapping[str, Any]:
        key = (group, version)
        if key not in self._documents:
            path = f"/openapi/v3/apis/{group}/{version}" if group else f"/openapi/v3/api/{version}"
            try:
                self._documents[key] = load_json(await self._client.read(path), WRAPPED_DEPTH)
            except StatusError as error:
                if not error.is_not_found:
                    raise
                self._documents[key] = {}
        return self._documents[key]
