"""Generate `cathedra.api.core` from the wire facts of Kubernetes' built-in types.

``kubernetes-types.json`` has the fields, Go types, protobuf numbers and list semantics of every type. The output is one
module of frozen structs per API group and version, and the index of kinds that `cathedra.api.scheme` reads. Run it
again after the facts change: ``python tools/generate_types.py``.
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cathedra.api.facts import group_version, load

CORE = Path(__file__).parent.parent / "src" / "cathedra" / "api" / "core"
FACTS: dict[str, dict[str, dict[str, Any]]] = load()

META = "meta/v1"
BY_HAND = {"resource/v1": "cathedra.api.resource", "resource/v1beta2": "cathedra.api.resource"}
"""Packages whose structs are written by hand, and where. v1beta2 has the wire form of v1."""
NAMES_ONLY = frozenset(
    (
        *("admission/v1beta1", "apidiscovery/v2", "apidiscovery/v2beta1", "apps/v1beta1", "apps/v1beta2"),
        *("authorization/v1beta1", "batch/v1beta1", "certificates/v1alpha1", "certificates/v1beta1"),
        *("coordination/v1alpha2", "coordination/v1beta1", "discovery/v1beta1", "events/v1beta1"),
        *("flowcontrol/v1beta1", "flowcontrol/v1beta2", "flowcontrol/v1beta3", "networking/v1beta1"),
        *("node/v1alpha1", "node/v1beta1", "policy/v1beta1", "rbac/v1alpha1", "rbac/v1beta1"),
        *("storage/v1alpha1", "storage/v1beta1"),
    )
)
"""Packages that no release is served in. Their kinds have names, which errors distinguish from unknown kinds, and no
structs."""

PACKAGES = {
    "apiv1": ["core/v1"],
    "authenticationv1": ["authentication/v1"],
    "authorizationv1": ["authorization/v1"],
    "batchv1": ["batch/v1"],
    "corev1": ["core/v1"],
    "metav1": ["meta/v1"],
    "schedulingv1alpha3": ["scheduling/v1alpha3"],
    "v1": ["meta/v1", "authentication/v1", "core/v1", "coordination/v1"],
}
SCALARS = {
    "string": "str",
    "bool": "bool",
    "int32": "Int32",
    "int64": "Int64",
    "float64": "float",
    "[]byte": "bytes",
    "byte": "int",
    "intstr.IntOrString": "Int32 | str",
    "resource.Quantity": "Quantity",
    "runtime.RawExtension": "RawJSON",
    "runtime.Object": "RawJSON",
    "types.UID": "str",
    "types.NodeName": "str",
    "metav1.Time": "Time",
    "v1.Time": "Time",
    "metav1.MicroTime": "MicroTime",
    "v1.MicroTime": "MicroTime",
    "metav1.Duration": "str",
}
META_SCALARS = {"Time": "Time", "MicroTime": "MicroTime", "Duration": "str", "FieldsV1": "RawJSON"}
OPAQUE = {
    ("apiextensions/v1", name)
    for name in (
        "JSON",
        "JSONSchemaProps",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
    )
}
NULL_LISTS = {
    ("DeviceClaim", "requests"),
    ("AllocatedDeviceStatus", "conditions"),
    ("ClusterRole", "rules"),
    ("CSINodeDriver", "topologyKeys"),
    ("CSINodeSpec", "drivers"),
    ("HorizontalPodAutoscalerStatus", "currentMetrics"),
    ("LimitRangeSpec", "limits"),
    ("ProjectedVolumeSource", "sources"),
    ("CustomResourceDefinitionStatus", "conditions"),
    ("Role", "rules"),
}
"""Lists that may be empty in a stored object and are then written as null."""


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_CONTAINER = words(
    "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy restartPolicyRules "
    "volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath "
    "terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty"
)
_WEBHOOK = words(
    "name clientConfig rules failurePolicy matchPolicy namespaceSelector objectSelector sideEffects timeoutSeconds "
    "admissionReviewVersions reinvocationPolicy matchConditions"
)
DECLARED = {
    "Container": _CONTAINER,
    "EphemeralContainer": _CONTAINER,
    "EphemeralContainerCommon": _CONTAINER,
    "Volume": ("name",),
    "AllocatedDeviceStatus": words("driver pool device shareID conditions data networkData"),
    "DeviceAllocationConfiguration": words("source requests"),
    "DeviceClaimConfiguration": ("requests",),
    "PoolStatus": words(
        "driver poolName generation resourceSliceCount totalDevices allocatedDevices availableDevices "
        "unavailableDevices nodeName validationError"
    ),
    "ResourcePoolStatusRequestStatus": words("poolCount pools conditions"),
    "PodSpec": words(
        "volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds "
        "activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount automountServiceAccountToken "
        "nodeName hostNetwork hostPID hostIPC shareProcessNamespace securityContext imagePullSecrets hostname "
        "subdomain affinity schedulerName tolerations hostAliases priorityClassName priority dnsConfig readinessGates "
        "runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os "
        "hostUsers schedulingGates resourceClaims resources hostnameOverride workloadRef schedulingGroup"
    ),
    "PodStatus": words(
        "observedGeneration phase conditions message reason nominatedNodeName hostIP hostIPs podIP podIPs startTime "
        "initContainerStatuses containerStatuses qosClass ephemeralContainerStatuses resize resourceClaimStatuses "
        "extendedResourceClaimStatus"
    ),
    "ReplicaSetSpec": words("replicas minReadySeconds selector template"),
    "JobSpec": words(
        "parallelism completions activeDeadlineSeconds podFailurePolicy successPolicy backoffLimit "
        "backoffLimitPerIndex maxFailedIndexes selector manualSelector template ttlSecondsAfterFinished "
        "completionMode suspend podReplacementPolicy managedBy"
    ),
    "CronJobSpec": words("schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend jobTemplate"),
    "Secret": words("kind apiVersion metadata immutable data stringData type"),
    "ConfigMap": words("kind apiVersion metadata immutable data binaryData"),
    "ServiceSpec": words(
        "ports selector clusterIP clusterIPs type externalIPs sessionAffinity loadBalancerIP loadBalancerSourceRanges "
        "externalName externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses sessionAffinityConfig "
        "ipFamilies ipFamilyPolicy allocateLoadBalancerNodePorts loadBalancerClass internalTrafficPolicy"
    ),
    "PersistentVolumeSpec": ("capacity",),
    "RuleWithOperations": ("operations",),
    "NamedRuleWithOperations": ("resourceNames", "operations"),
    "ValidatingWebhook": _WEBHOOK,
    "MutatingWebhook": _WEBHOOK,
}
"""Types whose fields Kubernetes writes in another order than that of their protobuf numbers."""

EMPTY = {
    "str": "str",
    "bool": "bool",
    "Int32": "int",
    "Int64": "int",
    "float": "float",
    "bytes": "bytes",
    "Int32 | str": "int",
}
PLAIN = {"str": '""', "bool": "False", "Int32": "0", "Int64": "0", "float": "0.0", "bytes": 'b""', "int": "0"}
BUILTINS = {
    "int",
    "str",
    "bool",
    "float",
    "bytes",
    "list",
    "dict",
    "tuple",
    "set",
    "type",
    "global",
    "always",
    "property",
    "object",
}


@dataclass(frozen=True)
class Field:
    attribute: str
    json: str
    annotation: str
    default: str


def attribute_name(json_name: str) -> str:
    """snake_case, with acronyms kept together and their plural «s» with them."""
    name = re.sub(r"([A-Z]+)s(?=[A-Z]|$)", lambda m: m[1].capitalize() + "s" if len(m[1]) > 1 else m[0], json_name)
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).replace("-", "_").replace("$", "")
    name = name.lower()
    return name + "_" if keyword.iskeyword(name) or (name in BUILTINS and name != "type") else name


def module_name(package: str) -> str:
    return package.replace("/", "_")


OBJECT = '''class KubeObject(KubeStruct, frozen=True):
    """The base of every kind whose objects are stored: what has metadata, and with it a name and an owner.

    Kinds declare ``metadata`` again, for JSON shows fields in the order in which a kind itself declares them.
    """

    metadata: ObjectMeta = always(lambda: ObjectMeta())
'''
"""The one struct of ``meta/v1`` that is not on the wire."""


class Module:
    """One group version on its way to Python."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.imports: set[str] = set()
        self.structs: set[str] = set()

    def source(self, *, docstring: str, generated: bool) -> str:
        classes = [text for name, facts in sorted(FACTS[self.package].items()) if (text := self.struct(name, facts))]
        if self.package == META:
            classes.insert(0, OBJECT)
            self.structs.add("KubeObject")
        body = "\n\n".join(classes)
        names = ", ".join(f'"{name}"' for name in sorted(self.structs))
        modules = "".join(f"from cathedra.api.core import {name}\n" for name in sorted(self.imports))
        used = sorted(
            name
            for name in (
                "Int32",
                "Int64",
                "KubeStruct",
                "MicroTime",
                "Quantity",
                "RawJSON",
                "Time",
                "UNSET_LIST",
                "always",
            )
            if re.search(rf"\b{name}\b", body)
        )
        first = "# Generated by tools/generate_types.py; do not edit.\n" if generated else ""
        return (
            f'{first}"""{docstring}"""\n\nfrom __future__ import annotations\n\n{modules}'
            f"from cathedra.api.struct import {', '.join(used)}\n\n__all__ = [{names}]\n\n\n{body}"
        )

    def struct(self, name: str, facts: dict[str, Any]) -> str | None:
        if "fields" not in facts or (self.package, name) in OPAQUE:
            return None
        if self.package == META and name in META_SCALARS:
            return None
        self.structs.add(name)
        fields = list(self.fields(name, facts))
        renames = {f.attribute: f.json for f in fields if f.attribute != f.json}
        rename = f", rename={json.dumps(renames)}" if renames else ""
        lines = [f"class {name}({self.base(fields)}, frozen=True{rename}):", f'    """{self.package} {name}."""', ""]
        lines += [f"    {f.attribute}: {f.annotation} = {f.default}" for f in fields]
        return "\n".join(lines).rstrip() + "\n"

    def base(self, fields: list[Field]) -> str:
        """`KubeObject` for what has a kind and metadata of its own, `KubeStruct` for lists, options and parts."""
        annotations = {field.attribute: field.annotation for field in fields}
        if "kind" not in annotations or not annotations.get("metadata", "").endswith("ObjectMeta"):
            return "KubeStruct"
        return "KubeObject" if self.package == META else self.refer(META, "KubeObject")

    def fields(self, owner: str, facts: dict[str, Any]) -> Iterator[Field]:
        declared = {field: position for position, field in enumerate(DECLARED.get(owner, ()))}
        ordered = sorted(
            facts["fields"].items(),
            key=lambda item: (
                declared.get(item[0], len(declared)),
                not item[1].get("inline"),
                item[1].get("pb", 0),
            ),
        )
        for json_name, fact in ordered:
            if fact.get("inline"):
                package, name = self.locate(fact["type"].lstrip("*"))
                yield from self.fields(name, FACTS[package][name])
                continue
            annotation, default = self.typed(owner, json_name, fact)
            yield Field(attribute_name(json_name), json_name, annotation, default)

    def typed(self, owner: str, json_name: str, fact: dict[str, Any]) -> tuple[str, str]:
        go, omitempty = fact["type"], fact.get("omitempty", False)
        if go.startswith("*"):
            return f"{self.annotation(go[1:])} | None", "None" if omitempty else "UNSET_LIST"
        resolved = self.resolve(go)
        if resolved in SCALARS.values() and resolved not in ("Quantity", "RawJSON", "Time", "MicroTime", "Int32 | str"):
            return resolved, PLAIN[resolved] if omitempty else f"always({EMPTY[resolved]})"
        if resolved in ("Time", "MicroTime", "RawJSON"):
            left_out = owner == "ObjectMeta" or (resolved == "RawJSON" and omitempty)
            return f"{resolved} | None", "None" if left_out else "UNSET_LIST"
        if resolved == "Quantity":
            return resolved, 'always(lambda: Quantity("0"))'
        if resolved == "Int32 | str":
            return resolved, "always(int)"
        if resolved.startswith("tuple["):
            if omitempty:
                return resolved, "()"
            return (
                (f"{resolved} | None", "UNSET_LIST")
                if (owner, json_name) in NULL_LISTS
                else (resolved, "always(tuple)")
            )
        if resolved.startswith("dict["):
            return resolved, "{}" if omitempty else "always(dict)"
        return resolved, f"always(lambda: {resolved}())"

    def annotation(self, go: str) -> str:
        return self.resolve(go)

    def resolve(self, go: str) -> str:
        if go in SCALARS:
            return SCALARS[go]
        if go.startswith("*"):
            return f"{self.resolve(go[1:])} | None"
        if go.startswith("[]"):
            return f"tuple[{self.resolve(go[2:])}, ...]"
        if match := re.fullmatch(r"map\[([^\]]+)\](.+)", go):
            return f"dict[str, {self.resolve(match[2])}]"
        try:
            package, name = self.locate(go)
        except LookupError as unknown:
            print(f"without facts, kept as opaque JSON: {unknown}")
            return "RawJSON"
        if package == META and name in META_SCALARS:
            return META_SCALARS[name]
        if (package, name) in OPAQUE:
            return "RawJSON"
        facts = FACTS[package][name]
        if "alias" in facts:
            return Module.resolve_in(package, facts["alias"], self)
        return self.refer(package, name)

    @staticmethod
    def resolve_in(package: str, go: str, reader: Module) -> str:
        away = Module(package)
        resolved = away.resolve(go)
        reader.imports |= away.imports
        return resolved

    def refer(self, package: str, name: str) -> str:
        if package == self.package:
            return name
        module = module_name(package)
        self.imports.add(module)
        return f"{module}.{name}"

    def locate(self, go: str) -> tuple[str, str]:
        qualifier, _, name = go.rpartition(".")
        if not qualifier:
            if go in FACTS[self.package] or (self.package == META and go in META_SCALARS):
                return self.package, go
            group = self.package.split("/")[0]
            for package in (f"{group}/v1", f"{group}/v1beta1", "core/v1", "meta/v1"):
                if go in FACTS.get(package, {}):  # an alias of the same type in another version
                    return package, go
            raise LookupError(f"{self.package}: {go}")
        if qualifier == "runtime":
            return "runtime", name
        for package in PACKAGES[qualifier]:
            if name in FACTS[package] or (package == META and name in META_SCALARS):
                return package, name
        raise LookupError(f"{self.package}: {go}")


def main() -> None:
    names: dict[str, str] = {}
    modules: dict[str, str] = {}
    for package, types in sorted(FACTS.items()):
        if package == "runtime":
            continue
        api_version = group_version(package)
        home = BY_HAND.get(package, f"cathedra.api.core.{module_name(package)}")
        if package not in BY_HAND and package not in NAMES_ONLY:
            text = Module(package).source(docstring=f"The types of {api_version}.", generated=True)
            (CORE / f"{module_name(package)}.py").write_text(text)
        kinds = sorted(
            name
            for name, facts in types.items()
            if any(field.endswith("TypeMeta") for field in facts.get("fields", {})) and package != META
        )
        if kinds:
            names[api_version] = " ".join(kinds)
            if package not in NAMES_ONLY:
                modules[api_version] = home
    (CORE / "index.py").write_text(
        "# Generated by tools/generate_types.py; do not edit.\n"
        '"""The names of all built-in kinds, and the modules of their structs."""\n\n'
        "from __future__ import annotations\n\nfrom typing import Final\n\n"
        f"_NAMES: Final = {names!r}\n"
        "KINDS: Final = {version: tuple(names.split()) for version, names in _NAMES.items()}\n"
        '"""apiVersion → kinds."""\n\n'
        f"MODULES: Final[dict[str, str]] = {modules!r}\n"
        '"""apiVersion → module of the structs. Versions that are never served have none."""\n'
    )
    for step in (("check", "--fix", "--select=I,RUF022"), ("format",)):
        subprocess.run([sys.executable, "-m", "ruff", *step, "--quiet", str(CORE)], check=True)


if __name__ == "__main__":
    main()
