"""Checks of the API server: decoding, defaults, validation and warnings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from cathedra.api.decoding import DecodeError, decode_values
from cathedra.api.field import ErrorType, FieldError
from cathedra.api.struct import replace, to_dict
from cathedra.apiserver.expressions import CELExpressions
from cathedra.insight.linting.findings import Findings, ManifestObject
from cathedra.insight.manifests import POD_SPECS, Manifest, find_node, misspelt
from cathedra.insight.reading.dumps import definition_of
from cathedra.kinds.definition import AnyDefinition, RequestContext, VersionDefinition
from cathedra.kinds.metadata import validate_new_metadata, validate_path_name
from cathedra.kinds.resource.claims.validation import ADMIN_LABEL, ADMIN_LABEL_OF_133
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates, classic

_QUOTED_FIELD: Final = re.compile(r'^(?:unknown|duplicate) field "(.+)"$')
_GO_FIELD: Final = re.compile(r"Go struct field \w+\.([\w.]+) of type")
_EXPRESSION: Final = re.compile(r"\.cel\.expression$|\.derivedAttributes\[\d+\]\.expression$")
"""The first release in which all kinds of resource.k8s.io are those of today."""
_CLAIMS_OF_POD: Final = re.compile(r"\.(?:resourceClaims|claims)\b")
_REPEATED: Final = re.compile(r"^line (\d+): (.*)$")


class ObjectChecks:
    """The API server of a release, as far as it judges single objects."""

    def __init__(self, gates: FeatureGates, namespaces: Mapping[str, Mapping[str, str]], now: float) -> None:
        self._gates, self._namespaces, self._now = gates, namespaces, now
        self._served = {(one.group, one.kind): one for one in _definitions(gates)}
        self._expressions = CELExpressions(gates)

    def check(self, manifest: Manifest, findings: Findings) -> ManifestObject | None:
        """Add the server's errors and warnings. Return the object; None if it cannot be decoded or its kind is not
        known."""
        for text in manifest.repeated:
            if found := _REPEATED.match(text):
                findings.at("unknown-field", manifest, int(found[1]), found[2])
        for field in ("apiVersion", "kind"):
            if key := misspelt(manifest.value, field):
                findings.add("unknown-field", manifest, key, f'unknown field "{key}"', hint=f"{field}:")
        gvk = manifest.gvk
        definition = self._served.get((gvk.group, gvk.kind))
        if definition is None:
            if definition_of(gvk.group, gvk.kind) is not None:
                why = f"{gvk.kind} is not served by Kubernetes {self._gates.release} with its default feature gates"
                findings.add("unknown-version", manifest, "kind", why)
            return None
        version = next((one for one in definition.versions if one.name == gvk.version), None)
        if version is None:
            served = ", ".join(f"{gvk.group}/{one.name}".lstrip("/") for one in definition.versions)
            why = f"{gvk.kind} is not served in {gvk.api_version} by Kubernetes {self._gates.release}"
            findings.add("unknown-version", manifest, "apiVersion", why, hint=f"use one of {served}")
            return None
        if version.deprecation_warning:
            hint = f"kubectl dra convert --to {definition.versions[0].name} rewrites it" if _is_ours(gvk.group) else ""
            findings.add("deprecated-version", manifest, "apiVersion", version.deprecation_warning, hint=hint)
        obj = self._decoded(manifest, version, findings)
        if obj is None:
            return None
        given = ManifestObject(manifest, definition, version.to_hub(obj))
        self._validate(given, definition, findings)
        return given

    def _decoded(self, manifest: Manifest, version: VersionDefinition, findings: Findings) -> Any:
        try:
            decoded = decode_values(version.type, manifest.gvk, manifest.value, self._gates.release)
        except (DecodeError, msgspec.MsgspecError, TypeError) as error:
            found = _GO_FIELD.search(str(error))
            path = found[1] if found else ""
            findings.add("wrong-type", manifest, path, str(error), hint=_quoted(manifest, path, str(error)))
            return None
        for problem in decoded.problems:
            known = _QUOTED_FIELD.match(problem)
            path = known[1] if known else ""
            findings.add("unknown-field", manifest, path, problem, hint=_moved(manifest, path))
        return decoded.object

    def _validate(self, given: ManifestObject, definition: AnyDefinition, findings: Findings) -> None:
        """Run the steps of a create and add their findings: defaults, what the release drops, validation, warnings."""
        context = self._context(given)
        obj: Any = given.object
        metadata = obj.metadata
        if definition.namespaced and not metadata.namespace:
            metadata = replace(metadata, namespace="default")
        if not metadata.name and metadata.generate_name:
            metadata = replace(metadata, name=f"{metadata.generate_name}00000"[-63:])
        strategy = definition.strategy
        defaulted = strategy.default(replace(obj, metadata=metadata), context)
        kept = strategy.prepare_create(defaulted, context)
        self._dropped(given, defaulted, kept, findings)
        errors = (
            *strategy.validate_access(kept, context),
            *validate_new_metadata(definition, metadata, self._gates),
            *strategy.validate_create(kept, context),
        )
        for error in errors or validate_path_name(metadata):
            _enter(given, error, findings)
        if not errors:
            for text in strategy.warnings(kept, None, context):
                findings.add("server-warning", given.manifest, text.partition(":")[0], text)

    def _context(self, given: ManifestObject) -> RequestContext:
        # Of a namespace that is not known, no label is known either: the benefit of the doubt.
        labels = self._namespaces.get(given.namespace, dict.fromkeys((ADMIN_LABEL, ADMIN_LABEL_OF_133), "true"))
        return RequestContext(
            gates=self._gates,
            now=self._now,
            api_version=given.manifest.gvk.api_version,
            namespace_labels=lambda _: labels,
            expressions=self._expressions,
        )

    def _dropped(self, given: ManifestObject, before: Any, after: Any, findings: Findings) -> None:
        """Fields of the spec that are gone after the step that drops what closed gates forbid."""
        is_ours = _is_ours(given.definition.group)
        if not is_ours and given.manifest.gvk.kind not in POD_SPECS:
            return
        for path in _missing(to_dict(before).get("spec", {}), to_dict(after).get("spec", {}), "spec"):
            if not is_ours and _CLAIMS_OF_POD.search(path):
                continue  # Clusters for such manifests have the gate on: else they would not serve the claims either.
            why = f"Kubernetes {self._gates.release} drops {path}: its feature gate is off by default"
            findings.add("dropped-field", given.manifest, path, why)


def _definitions(gates: FeatureGates) -> tuple[AnyDefinition, ...]:
    """Return the definitions that the release serves, with the kinds of its generation."""
    if not gates.has(classic.DRIVERS_ALLOCATE):
        return all_definitions(gates)
    # start-up time: the parts of old releases, with those alone
    from cathedra.cluster.parts.generations import generation_of

    return generation_of(gates).definitions or all_definitions(gates)


_OF_REQUESTS: Final = re.compile(r"(spec\.(?:spec\.)?devices\.requests\[\d+\])\.(\w+)$")
_OF_DEVICES: Final = re.compile(r"spec\.devices\[\d+\]\.basic$")


def _moved(manifest: Manifest, path: str) -> str:
    """Return where the field of v1beta1 is in the version of the manifest."""
    if not _is_ours(manifest.gvk.group):
        return ""
    if manifest.gvk.version == "v1beta1":
        shape = "v1beta1 has the fields of exactly in the request itself; exactly is of v1beta2 and v1"
        return shape if path.endswith(".exactly") else ""
    if (found := _OF_REQUESTS.fullmatch(path)) is not None and found[2] in _BELOW_EXACTLY:
        return f"since v1beta2 it is below exactly: exactly: {{{found[2]}: …}} (kubectl dra convert rewrites v1beta1)"
    if _OF_DEVICES.fullmatch(path):
        return "since v1beta2 attributes and capacity are fields of the device itself, without basic"
    return ""


_BELOW_EXACTLY: Final = frozenset(
    ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")
)
_BOOLEANS: Final = re.compile(r"y|n|yes|no|on|off|true|false", re.IGNORECASE)


def _quoted(manifest: Manifest, path: str, error: str) -> str:
    """Return the value in quotes, if it is a text that YAML reads as something else."""
    if "of type string" not in error:
        return ""
    node, _, exact = find_node(manifest.node, path)
    if not exact or node.kind != "scalar" or node.style:
        return ""
    what = "a boolean" if _BOOLEANS.fullmatch(node.text) else "a number" if "number" in error else ""
    return f'"{node.text}": without quotes YAML reads {what}' if what else ""


def _is_ours(group: str) -> bool:
    return group == "resource.k8s.io"


def _enter(given: ManifestObject, error: FieldError, findings: Findings) -> None:
    """Add a field error under the most specific rule; errors of expressions are reported by their own rules."""
    if _EXPRESSION.search(error.field) and error.type in (ErrorType.INVALID, ErrorType.INTERNAL):
        return
    message = f"{error.field}: {error.message}"
    rule = "all-with-count" if error.field.endswith(".count") and "'All'" in error.detail else "invalid-object"
    findings.add(rule, given.manifest, error.field, message)


def _missing(before: Any, after: Any, path: str) -> list[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found = []
        for name, value in before.items():
            inner = f"{path}.{name}"
            found += _missing(value, after[name], inner) if name in after else [inner]
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [one for n, (old, new) in enumerate(pairs) for one in _missing(old, new, f"{path}[{n}]")]
    return []
