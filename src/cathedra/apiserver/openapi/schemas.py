"""Component schemas of an OpenAPI document: collected as they are referred to, each once.

Made from the facts about the built-in types, which know what Kubernetes publishes of them: defaults, list types, merge
keys, which fields must be there (docs/spec/apimachinery.md §3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

from cathedra.api.facts import group_version
from cathedra.api.typeinfo import FieldInfo, TypeInfo, locate, package_of, type_info
from cathedra.apiserver.patches.schema import is_atomic
from cathedra.releases import behaviours
from cathedra.releases.fields import is_known, is_required

META: Final = "meta/v1"
_META_NAME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_APIEXTENSIONS_NAME: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_SCALARS: Final[dict[str, OpenAPIObject]] = {
    "string": {"type": "string"},
    "types.UID": {"type": "string"},
    "types.NodeName": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "format": "int32"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "uint32": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "[]byte": {"type": "string", "format": "byte"},
    "[]uint8": {"type": "string", "format": "byte"},
}
_EMPTY: Final[OpenAPIObject] = {"string": "", "boolean": False, "integer": 0, "number": 0}
_VALUES: Final[dict[str, tuple[str, OpenAPIObject]]] = {
    "Quantity": ("io.k8s.apimachinery.pkg.api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "RawExtension": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
    "Object": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
    "Time": (f"{_META_NAME}.Time", {"type": "string", "format": "date-time"}),
    "MicroTime": (f"{_META_NAME}.MicroTime", {"type": "string", "format": "date-time"}),
    "Duration": (f"{_META_NAME}.Duration", {"type": "string"}),
    "FieldsV1": (f"{_META_NAME}.FieldsV1", {"type": "object"}),
    "JSON": (f"{_APIEXTENSIONS_NAME}.JSON", {}),
    "JSONSchemaPropsOrArray": (f"{_APIEXTENSIONS_NAME}.JSONSchemaPropsOrArray", {}),
    "JSONSchemaPropsOrBool": (f"{_APIEXTENSIONS_NAME}.JSONSchemaPropsOrBool", {}),
    "JSONSchemaPropsOrStringArray": (f"{_APIEXTENSIONS_NAME}.JSONSchemaPropsOrStringArray", {}),
}
"""Types whose schema is not made from fields, since their JSON has another form."""
_EMPTY_TYPES: Final = {"CustomResourceSubresourceStatus": f"{_APIEXTENSIONS_NAME}.CustomResourceSubresourceStatus"}
"""Structs without fields, which the facts leave out."""
_COPIED: Final = {("admissionregistration/v1alpha1", "MatchCondition")}
"""(package, type) that is declared as a copy of the type of v1, and has a schema of its own."""
_REQUIRED_ORDER: Final = {
    "OwnerReference": ["apiVersion", "kind", "name", "uid"],
    "EndpointSlice": ["addressType", "endpoints"],
    "APIResource": ["name", "singularName", "namespaced", "kind", "verbs"],
    "HTTPIngressPath": ["pathType", "backend"],
    "PartitionTypeStatus": ["attribute", "type", "total", "allocatable"],
}
"""Required fields in the order of their declaration, of types where their wire numbers have another order."""
_VERSION: Final = (
    "major",
    "minor",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
)
"""Required fields of the answer of ``/version`` in the order of their declaration."""
_EMULATION: Final = ("emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor")
_UNIONS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("core", "AppArmorProfile"): ("type", "localhostProfile"),
    ("core", "PodSchedulingGroup"): ("", "podGroupName"),
    ("core", "SeccompProfile"): ("type", "localhostProfile"),
    ("flowcontrol", "LimitResponse"): ("type", "queuing"),
    ("flowcontrol", "PriorityLevelConfigurationSpec"): ("type", "exempt", "limited"),
    ("flowcontrol", "Subject"): ("kind", "group", "serviceAccount", "user"),
    ("scheduling", "CompositeDisruptionMode"): ("", "all", "single"),
    ("scheduling", "CompositePodGroupSchedulingPolicy"): ("", "basic", "gang"),
    ("scheduling", "DisruptionMode"): ("", "all", "single"),
    ("scheduling", "PodGroupSchedulingPolicy"): ("", "basic", "gang"),
    ("scheduling", "PodGroupTemplateReference"): ("", "workload"),
    ("scheduling", "WorkloadPodGroupDisruptionMode"): ("", "all", "single"),
    ("scheduling", "WorkloadPodGroupSchedulingPolicy"): ("", "basic", "gang"),
}
"""(group, type) → the field that names the member which is set ("" if there is none), and the members."""
_CONSTANTS: Final = {"ref(AzureDataDiskCachingReadWrite)": "ReadWrite", "ref(AzureSharedBlobDisk)": "Shared"}
"""Defaults that the facts give by the name of a constant."""


def schema_name(package: str, name: str) -> str:
    """``io.k8s.api.<group>.<version>.<Kind>``, with the groups that live elsewhere."""
    group, version = package.split("/")
    if group == "apiregistration":
        return f"io.k8s.kube-aggregator.pkg.apis.apiregistration.{version}.{name}"
    if group == "meta":
        return f"io.k8s.apimachinery.pkg.apis.meta.{version}.{name}"
    if group == "apiextensions":
        return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{name}"
    return f"io.k8s.api.{group}.{version}.{name}"


class Schemas:
    """The schemas of one document, of a release's types."""

    def __init__(self, release: str, descriptions: Descriptions) -> None:
        self._release = release
        self._descriptions = descriptions
        self._made: dict[str, OpenAPIObject] = {}

    def components(self) -> OpenAPIObject:
        """Return all schemas that were referred to, by name."""
        return dict(sorted(self._made.items()))

    def kind(self, api_version: str, kind: str, *, gvks: Iterable[dict[str, str]] = ()) -> OpenAPIObject:
        """Return a reference to the schema of a built-in kind, which is marked with ``gvks``."""
        return self.named(package_of(api_version), kind, gvks=gvks)

    def list_of(self, item: OpenAPIObject, gvk: dict[str, str]) -> OpenAPIObject:
        """Return a reference to the schema of a list of objects that ``item`` refers to."""
        name = f"{item['$ref'].rpartition('/')[2]}List"
        self._made[name] = {
            "type": "object",
            "description": f"{gvk['kind']}List is a list of {gvk['kind']} objects.",
            "required": ["items"],
            "properties": {
                **self._type_meta(),
                "items": {
                    "type": "array",
                    "description": f"The {gvk['kind']} objects, in storage order.",
                    "items": {"allOf": [item], "default": {}},
                },
                "metadata": {
                    "allOf": [self.named(META, "ListMeta")],
                    "default": {},
                    "description": "Where the list stands: its resource version, and how to go on.",
                },
            },
            "x-kubernetes-group-version-kind": [{**gvk, "kind": f"{gvk['kind']}List"}],
        }
        return _reference(name)

    def document(self, name: str, schema: OpenAPIObject, gvk: dict[str, str]) -> OpenAPIObject:
        """Return a reference to a given schema, as that of a custom resource."""
        properties = {**schema.get("properties", {}), **self._type_meta()}
        metadata = {**schema.get("properties", {}).get("metadata", {})}
        properties["metadata"] = {
            "allOf": [self.named(META, "ObjectMeta")],
            "description": metadata.get("description") or self._descriptions.field("", "metadata"),
        }
        self._made[name] = {
            **schema,
            "type": "object",
            "properties": dict(sorted(properties.items())),
            "x-kubernetes-group-version-kind": [gvk],
        }
        return _reference(name)

    def named(self, package: str, name: str, *, gvks: Iterable[dict[str, str]] = ()) -> OpenAPIObject:
        """Return a reference to the schema of a built-in type, which is made if it is missing."""
        full = schema_name(package, name)
        if full not in self._made:
            # Entered before its fields are made: types refer to each other in circles.
            self._made[full] = {}
            self._made[full] = self._struct(package, name)
        for gvk in gvks:
            marks = self._made[full].setdefault("x-kubernetes-group-version-kind", [])
            if gvk not in marks:
                marks.append(gvk)
        return _reference(full)

    def patch(self) -> OpenAPIObject:
        """Return a reference to the schema of any patch."""
        name = f"{_META_NAME}.Patch"
        self._made[name] = {"type": "object", "description": "Patch stands for a patch in any of its four forms."}
        return _reference(name)

    def version(self) -> OpenAPIObject:
        """Return a reference to the schema of the answer of ``/version``."""
        name = "io.k8s.apimachinery.pkg.version.Info"
        emulation = _EMULATION if behaviours.EMULATION_SHOWN.holds_in(self._release) else ()
        self._made[name] = {
            "description": self._descriptions.type("Info"),
            "type": "object",
            "required": list(_VERSION),
            "properties": {
                field: {
                    "type": "string",
                    "description": self._descriptions.field("Info", field),
                    **({"default": ""} if field in _VERSION else {}),
                }
                for field in sorted((*_VERSION, *emulation))
            },
        }
        return _reference(name)

    def _type_meta(self) -> OpenAPIObject:
        return {
            name: {"type": "string", "description": self._descriptions.field("", name)}
            for name in ("apiVersion", "kind")
        }

    def _struct(self, package: str, name: str) -> OpenAPIObject:
        if name == "WatchEvent":
            return self._watch_event()
        fields = {
            field: info
            for field, info in self._info(package, name).fields.items()
            if is_known(name, field, self._release)
        }
        required = [
            field
            for field, info in fields.items()
            if is_required(name, field, self._release, newest=_is_required(info))
        ]
        # Kubernetes lists them in the order of the Go struct, which is that of the wire numbers but for a few types.
        required.sort(key=lambda field: fields[field].number)
        schema: OpenAPIObject = {
            "description": self._descriptions.type(name, package),
            "type": "object",
            "properties": {field: self._property(package, name, info) for field, info in sorted(fields.items())},
        }
        if required:
            schema["required"] = [field for field in _REQUIRED_ORDER.get(name, required) if field in required]
        if is_atomic(package, name):
            schema["x-kubernetes-map-type"] = "atomic"
        if union := _UNIONS.get((package.partition("/")[0], name)):
            schema["x-kubernetes-unions"] = [_union(*union)]
        if package != META and {"kind", "metadata"} <= fields.keys():
            # A kind is marked in every document that refers to it, for version 2 joins them: a StatefulSet has claims.
            group, _, version = group_version(package).rpartition("/")
            schema["x-kubernetes-group-version-kind"] = [{"group": group, "kind": name, "version": version}]
        return schema

    @staticmethod
    def _info(package: str, name: str) -> TypeInfo:
        return type_info("admissionregistration/v1", name) if (package, name) in _COPIED else type_info(package, name)

    def _watch_event(self) -> OpenAPIObject:
        """Return the schema of watch events, which the facts lack: they exist only in streams."""
        return {
            "description": self._descriptions.type("WatchEvent"),
            "type": "object",
            "required": ["type", "object"],
            "properties": {
                "object": {
                    "allOf": [self._named(META, "runtime.RawExtension")],
                    "description": self._descriptions.field("WatchEvent", "object"),
                },
                "type": {
                    "type": "string",
                    "default": "",
                    "description": self._descriptions.field("WatchEvent", "type"),
                },
            },
        }

    def _property(self, package: str, owner: str, info: FieldInfo) -> OpenAPIObject:
        schema = self._of(package, info.go)
        if "$ref" in schema:
            # Kubernetes' generator gives structs by value an empty default, and wraps the reference for it.
            by_value = not info.is_pointer and not self._is_value(info.go)
            schema = {"allOf": [schema], **({"default": {}} if by_value else {})}
        if info.default:
            schema["default"] = _CONSTANTS.get(info.default) or json.loads(info.default)
        elif not info.omitempty and not info.is_pointer and schema.get("type") in _EMPTY:
            schema["default"] = _EMPTY[schema["type"]]
        description = self._descriptions.field(owner, info.name, package)
        if values := schema.get("enum"):
            description += "\n\nPossible enum values:\n" + "\n".join(f' - `"{value}"`' for value in values)
        schema["description"] = description
        extensions = {
            "list-type": info.list_type,
            "list-map-keys": list(info.list_map_keys),
            "map-type": info.map_type or info.struct_type,
            "patch-strategy": info.patch_strategy,
            "patch-merge-key": info.patch_merge_key,
        }
        return schema | {f"x-kubernetes-{name}": value for name, value in extensions.items() if value}

    def _of(self, package: str, go: str) -> OpenAPIObject:
        go = go.lstrip("*")
        if go in _SCALARS:
            return dict(_SCALARS[go])
        if go.startswith("[]"):
            return {"type": "array", "items": self._item(package, go[2:])}
        keyed = re.fullmatch(r"map\[[^\]]+\](.+)", go)
        if keyed:
            return {"type": "object", "additionalProperties": self._item(package, keyed[1])}
        return self._named(package, go)

    def _item(self, package: str, go: str) -> OpenAPIObject:
        schema = self._of(package, go)
        if "$ref" in schema:
            return schema if self._is_value(go) or go.startswith("*") else {"allOf": [schema], "default": {}}
        if schema.get("type") in _EMPTY:
            schema["default"] = _EMPTY[schema["type"]]
        return schema

    @staticmethod
    def _is_value(go: str) -> bool:
        return go.lstrip("*").rpartition(".")[2] in _VALUES

    def _named(self, package: str, go: str) -> OpenAPIObject:
        name = go.rpartition(".")[2]
        info = locate(package, go)
        if info is not None and name not in _VALUES:
            if not info.alias:
                return self.named(package if (package, name) in _COPIED else info.package, name)
            schema = self._of(info.package, info.alias)
            if values := values_of(info.package, name):
                schema["enum"] = list(values)
            return schema
        if name in _VALUES:
            full, schema = _VALUES[name]
            self._made[full] = {"description": self._descriptions.type(name), **schema}
            return _reference(full)
        if name in _EMPTY_TYPES:
            full = _EMPTY_TYPES[name]
            self._made[full] = {"description": self._descriptions.type(name), "type": "object"}
            return _reference(full)
        return {"type": "object"}


def _reference(name: str) -> OpenAPIObject:
    return {"$ref": f"#/components/schemas/{name}"}


def _union(discriminator: str, *fields: str) -> OpenAPIObject:
    members = {field: f"{field[:1].upper()}{field[1:]}" for field in fields}
    named = {"discriminator": discriminator} if discriminator else {}
    return {**named, "fields-to-discriminateBy": members}


def _is_required(info: FieldInfo) -> bool:
    return info.required or not (info.optional or info.omitempty)


# --- enumerations ---------------------------------------------------------------------------------------------------


_CORE: Final = {
    "AppArmorProfileType": ("Localhost", "RuntimeDefault", "Unconfined"),
    "AzureDataDiskCachingMode": ("None", "ReadOnly", "ReadWrite"),
    "AzureDataDiskKind": ("Dedicated", "Managed", "Shared"),
    "DNSPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "HostPathType": (
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ),
    "IPFamilyPolicy": ("PreferDualStack", "RequireDualStack", "SingleStack"),
    "MountPropagationMode": ("Bidirectional", "HostToContainer", "None"),
    "NamespacePhase": ("Active", "Terminating"),
    "NodeInclusionPolicy": ("Honor", "Ignore"),
    "NodePhase": ("Pending", "Running", "Terminated"),
    "NodeSelectorOperator": ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"),
    "PersistentVolumeClaimPhase": ("Bound", "Lost", "Pending"),
    "PersistentVolumeMode": ("Block", "Filesystem"),
    "PersistentVolumePhase": ("Available", "Bound", "Failed", "Pending", "Released"),
    "PersistentVolumeReclaimPolicy": ("Delete", "Recycle", "Retain"),
    "PodFSGroupChangePolicy": ("Always", "OnRootMismatch"),
    "PodPhase": ("Failed", "Pending", "Running", "Succeeded", "Unknown"),
    "PodQOSClass": ("BestEffort", "Burstable", "Guaranteed"),
    "PreemptionPolicy": ("Never", "PreemptLowerPriority"),
    "ProcMountType": ("Default", "Unmasked"),
    "Protocol": ("SCTP", "TCP", "UDP"),
    "PullPolicy": ("Always", "IfNotPresent", "Never"),
    "ResourceQuotaScope": (
        "BestEffort",
        "CrossNamespacePodAffinity",
        "NotBestEffort",
        "NotTerminating",
        "PriorityClass",
        "Terminating",
        "VolumeAttributesClass",
    ),
    "RestartPolicy": ("Always", "Never", "OnFailure"),
    "ScopeSelectorOperator": ("DoesNotExist", "Exists", "In", "NotIn"),
    "SeccompProfileType": ("Localhost", "RuntimeDefault", "Unconfined"),
    "ServiceAffinity": ("ClientIP", "None"),
    "ServiceExternalTrafficPolicy": ("Cluster", "Local"),
    "ServiceInternalTrafficPolicy": ("Cluster", "Local"),
    "ServiceType": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
    "SupplementalGroupsPolicy": ("Merge", "Strict"),
    "TaintEffect": ("NoExecute", "NoSchedule", "PreferNoSchedule"),
    "TerminationMessagePolicy": ("FallbackToLogsOnError", "File"),
    "TolerationOperator": ("Equal", "Exists", "Gt", "Lt"),
    "URIScheme": ("HTTP", "HTTPS"),
    "UnsatisfiableConstraintAction": ("DoNotSchedule", "ScheduleAnyway"),
}
_RESOURCE: Final = {
    "AllocationConfigSource": ("FromClaim", "FromClass"),
    "DeviceAllocationMode": ("All", "ExactCount"),
    "DeviceTaintEffect": ("NoExecute", "NoSchedule", "None"),
    "DeviceTolerationOperator": ("Equal", "Exists"),
}
_GROUPS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "admissionregistration": {
        "FailurePolicyType": ("Fail", "Ignore"),
        "MatchPolicyType": ("Equivalent", "Exact"),
        "OperationType": ("*", "CONNECT", "CREATE", "DELETE", "UPDATE"),
        "ReinvocationPolicyType": ("IfNeeded", "Never"),
        "ScopeType": ("*", "Cluster", "Namespaced"),
        "SideEffectClass": ("None", "NoneOnDryRun", "Some", "Unknown"),
    },
    "apps": {
        "DaemonSetUpdateStrategyType": ("OnDelete", "RollingUpdate"),
        "DeploymentStrategyType": ("Recreate", "RollingUpdate"),
        "PodManagementPolicyType": ("OrderedReady", "Parallel"),
        "StatefulSetUpdateStrategyType": ("OnDelete", "RollingUpdate"),
    },
    "batch": {
        "CompletionMode": ("Indexed", "NonIndexed"),
        "ConcurrencyPolicy": ("Allow", "Forbid", "Replace"),
        "PodFailurePolicyAction": ("Count", "FailIndex", "FailJob", "Ignore"),
        "PodFailurePolicyOnExitCodesOperator": ("In", "NotIn"),
        "PodReplacementPolicy": ("Failed", "TerminatingOrFailed"),
    },
    "core": _CORE,
    "networking": {
        "PathType": ("Exact", "ImplementationSpecific", "Prefix"),
        "PolicyType": ("Egress", "Ingress"),
    },
    "resource": _RESOURCE,
}


def values_of(package: str, name: str) -> tuple[str, ...]:
    """Return the values of a named text, sorted; none if it is no enumeration. ``package`` is as ``resource/v1``."""
    return _GROUPS.get(package.partition("/")[0], {}).get(name, ())


# --- descriptions ---------------------------------------------------------------------------------------------------


class Descriptions:
    """Texts, loaded when the first document is made."""

    def __init__(self) -> None:
        self._texts: dict[str, dict[str, str]] = json.loads(
            (Path(__file__).parent / "descriptions.json").read_text(encoding="utf-8")
        )

    def type(self, name: str, package: str = "") -> str:
        """Return the description of a type; ``package`` (``core/v1``) distinguishes types of the same name."""
        return self._entry(name, package).get("") or f"{name} holds the {_words(name)} of an object."

    def field(self, owner: str, field: str, package: str = "") -> str:
        """Return the description of a field."""
        own = self._entry(owner, package).get(field)
        if own is not None:
            return own
        everywhere = self._texts["*"].get(field)
        return everywhere if everywhere is not None else f"The {_words(field)}."

    def _entry(self, name: str, package: str) -> dict[str, str]:
        return self._texts.get(f"{package.partition('/')[0]}.{name}") or self._texts.get(name, {})


def _words(name: str) -> str:
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name) or [name]
    return " ".join(part if part.isupper() and len(part) > 1 else part.lower() for part in parts)


OpenAPIObject: TypeAlias = dict[str, Any]
"""A part of a document: a schema, an operation, a response. It is made of literals and only ever encoded as JSON."""
