"""`lint`: manifests in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.core_v1 import Namespace
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.insight.linting.claims import check_claims
from cathedra.insight.linting.devices import DeviceChecks
from cathedra.insight.linting.expressions import ExpressionRules
from cathedra.insight.linting.findings import Findings, ManifestObject, Suppressions, check_comments, selector_groups
from cathedra.insight.linting.groups import check_groups
from cathedra.insight.linting.objects import ObjectChecks
from cathedra.insight.linting.report import RULES, LintFinding, LintReport
from cathedra.insight.linting.slices import check_slices, check_taint_rules
from cathedra.insight.manifests import Manifest, ManifestFile, Unreadable, Written, manifests_of, written_files
from cathedra.insight.reading.dumps import definition_of, read_object
from cathedra.insight.reading.manifests import creates_unknown_pods, unknown_kind
from cathedra.insight.reading.podtemplates import KNOWN, PodTemplates, templates_in
from cathedra.insight.reading.state import ClusterState, Note
from cathedra.releases import DEFAULT_RELEASE, FeatureGates

_THEN: Final = 1_767_225_600.0
"""The time that rules use, in seconds since the epoch: findings do not depend on the current time."""


def lint(
    given: Written,
    *,
    against: ClusterState | None = None,
    release: str = "",
    feature_gates: Mapping[str, bool] = MappingProxyType({}),
    templates: PodTemplates = KNOWN,
) -> LintReport:
    """Return the mistakes in manifests; with ``against`` also selectors that do not fit the devices and classes of a
    cluster.

    ``release`` is the version of Kubernetes whose rules apply; by default that of the cluster, or else the newest.
    ``feature_gates`` are those that differ from its defaults, or from the gates of the cluster. ``templates`` are the
    kinds of other projects whose pod templates are read.

    Raises:
        InvalidInput: a file is not there, or is no text; or ``given`` is the name of a file instead of its text.
        OSError: a file cannot be read.
        UnknownGate: the release or a gate is not known.
    """
    known = against.gates.release if against is not None else DEFAULT_RELEASE
    gates = FeatureGates.for_release(release or known, feature_gates)
    if against is not None and release in ("", known):
        # The cluster's own gates, which differ from the defaults of its release.
        gates = against.gates.with_reported(feature_gates)
    files = list(written_files(given))
    run = _LintRun(gates, against, templates)
    for file in files:
        run.read(file)
    run.judge()
    return run.report(len(files))


class _LintRun:
    """One run over all files: objects are read first, for some rules need to see all of them."""

    def __init__(self, gates: FeatureGates, state: ClusterState | None, templates: PodTemplates) -> None:
        self._gates, self._state, self._templates = gates, state, templates
        self._notes: list[Note] = []
        self._findings = Findings()
        self._manifests: list[Manifest] = []
        self._objects: list[ManifestObject] = []
        self._allowed: dict[str, Suppressions] = {}

    def read(self, file: ManifestFile) -> None:
        """Read the objects of a file."""
        self._allowed[file.name] = Suppressions(file)
        here: list[Manifest] = []
        for one in manifests_of(file):
            if isinstance(one, Unreadable):
                self._findings.found.append(_unreadable(one))
            else:
                here.append(one)
        self._manifests += here
        check_comments(here, self._allowed[file.name], self._findings)

    def judge(self) -> None:
        """Run all checks on the manifests, and collect their findings."""
        rules = ObjectChecks(self._gates, self._namespaces(), _THEN)
        for manifest in self._manifests:
            given = rules.check(manifest, self._findings)
            if given is not None:
                self._objects.append(given)
            else:
                self._objects += self._pods_of(manifest)
        classes = self._classes()
        expressions = ExpressionRules(self._gates, classes)
        devices = DeviceChecks(self._state, classes) if self._state is not None else None
        for given in self._objects:
            for group in selector_groups(given):
                expressions.check(given, group, self._findings)
                if devices is not None:
                    devices.check(given, group, self._findings)
        check_claims(self._objects, self._known_claims(), classes, self._findings)
        check_groups(self._objects, self._state, self._findings)
        check_slices(self._objects, self._findings)
        check_taint_rules(self._objects, self._gates, self._findings)

    def _pods_of(self, manifest: Manifest) -> Iterator[ManifestObject]:
        """Yield the pods of a kind of another project, or note that they are not known."""
        definition = definition_of("", "Pod")
        assert definition is not None, "pods are built in"
        if definition_of(manifest.gvk.group, manifest.gvk.kind) is not None:
            return
        found = list(templates_in(manifest.value, manifest.gvk, self._templates))
        if not found and creates_unknown_pods(manifest.value):
            self._notes.append(unknown_kind(manifest.value))
        for one in found:
            metadata = {"name": manifest.name, "namespace": manifest.namespace or "default"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": one.value["spec"]}
            try:
                decoded = read_object(pod)
            except InvalidInput as error:
                self._findings.add("wrong-type", manifest, one.path, str(error.__cause__ or error))
                continue
            if decoded is not None:
                yield ManifestObject(manifest, definition, decoded.object, f"{one.path}.spec")

    def report(self, files: int) -> LintReport:
        """Return the findings that no comment suppresses."""
        order = {name: number for number, name in enumerate(self._allowed)}
        ordered = sorted(self._findings.found, key=lambda one: (order[one.file], one.line, one.column, one.rule))
        homes = {(one.file.name, _title(one)): one for one in self._manifests}
        left = [one for one in ordered if not self._allowed[one.file].allows(one, homes.get((one.file, one.object)))]
        notes = self._state.notes_on(ResourceSlice, DeviceClass) if self._state is not None else ()
        objects = len({id(one.manifest) for one in self._objects})
        return LintReport(tuple(left), files, objects, len(ordered) - len(left), (*notes, *self._notes))

    def _namespaces(self) -> Mapping[str, Mapping[str, str]]:
        found: dict[str, Mapping[str, str]] = {}
        if self._state is not None:
            found = {one.metadata.name: one.metadata.labels for one in self._state.all(Namespace)}
        for one in self._manifests:
            metadata = one.value.get("metadata")
            labels: Any = metadata.get("labels") if isinstance(metadata, Mapping) else None
            if one.gvk.kind == "Namespace" and one.gvk.group == "":
                found[one.name] = labels if isinstance(labels, Mapping) else {}
        return found

    def _classes(self) -> dict[str, tuple[str | None, ...]]:
        """Return the selectors of the classes of the cluster and of the files, by class; the files take precedence."""
        found: dict[str, tuple[str | None, ...]] = {}
        known: Iterable[DeviceClass] = self._state.all(DeviceClass) if self._state is not None else ()
        for one in (*known, *(given.object for given in self._objects if isinstance(given.object, DeviceClass))):
            selectors = one.spec.selectors or ()
            found[one.metadata.name] = tuple(s.cel.expression if s.cel is not None else None for s in selectors)
        return found

    def _known_claims(self) -> dict[tuple[str, str, str], Any] | None:
        kinds = (ResourceClaim, ResourceClaimTemplate)
        if self._state is None or not all(self._state.is_known(kind) for kind in kinds):
            return None
        claims = {("claim", *_key(one)): one.spec for one in self._state.all(ResourceClaim)}
        return claims | {("template", *_key(one)): one.spec.spec for one in self._state.all(ResourceClaimTemplate)}


def _key(one: ResourceClaim | ResourceClaimTemplate) -> tuple[str, str]:
    return one.metadata.namespace, one.metadata.name


def _title(one: Manifest) -> str:
    return "/".join(part for part in (one.gvk.kind.lower(), one.namespace, one.name) if part)


def _unreadable(one: Unreadable) -> LintFinding:
    rule = RULES["broken-yaml"]
    line = one.file.line(one.line)
    return LintFinding(rule.name, rule.level, one.text, one.file.name, one.line, one.column, source=line)
