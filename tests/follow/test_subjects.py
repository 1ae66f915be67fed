"""Each subject finds what a release adds, drops and changes, and nothing where nothing differs."""

from __future__ import annotations

import json
from pathlib import Path

from tools.follow import fields, gates, metrics, openapi, plugins, roles, texts, versions
from tools.follow.source import Checkout

from cathedra.apiserver.authorization.bootstrap.defaults import cluster_roles
from cathedra.apiserver.catalog import Catalog, served_definitions
from cathedra.apiserver.openapi.document import Documents
from cathedra.apiserver.openapi.swagger import swagger_part
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from cathedra.scheduler.configuration.enablement import DEFAULT_PLUGINS
from tests.follow.checkout import API, write

RELEASE = "1.36"
GATES = """
const (
	DRADeviceTaints featuregate.Feature = "DRADeviceTaints"
	Unheard featuregate.Feature = "Unheard"
	Older featuregate.Feature = "Older"
)

var defaultVersionedKubernetesFeatureGates = map[featuregate.Feature]featuregate.VersionedSpecs{
	DRADeviceTaints: {
		{Version: version.MustParse("1.33"), Default: false, PreRelease: featuregate.Alpha},
		{Version: version.MustParse("1.36"), Default: %s, PreRelease: featuregate.Beta},
	},

	Older: {
		{Version: version.MustParse("1.30"), Default: true, PreRelease: featuregate.Beta},
	},

	Unheard: {
		{Version: version.MustParse("1.36"), Default: true, PreRelease: featuregate.GA, LockToDefault: true}, // so
	},
}
"""


def test_a_gate_with_another_default_differs(tmp_path: Path) -> None:
    write(tmp_path, gates.FILES[0], GATES % "false")
    found = {one.name: one for one in gates.differences(Checkout(tmp_path), RELEASE)}
    assert (found["DRADeviceTaints"].theirs, found["DRADeviceTaints"].ours) == ("BETA off", "BETA on")
    write(tmp_path, gates.FILES[0], GATES % "true")
    assert "DRADeviceTaints" not in {one.name for one in gates.differences(Checkout(tmp_path), RELEASE)}


def test_gates_that_cathedra_lacks_are_listed_in_the_release_that_changes_them(tmp_path: Path) -> None:
    write(tmp_path, gates.FILES[0], GATES % "true")
    found = {one.name: one for one in gates.differences(Checkout(tmp_path), RELEASE)}
    assert found["Unheard"].theirs == "GA on, locked since 1.36"
    assert "Older" not in found


def test_a_gate_that_the_release_has_removed_differs(tmp_path: Path) -> None:
    write(tmp_path, gates.FILES[0], GATES % "true")
    found = {one.name: one for one in gates.differences(Checkout(tmp_path), RELEASE)}
    assert found["DRAAdminAccess"].theirs == "has no such gate"


def test_the_generated_list_of_gates_is_read_where_it_is(tmp_path: Path) -> None:
    spec = '{default: true, lockToDefault: true, preRelease: GA, version: "1.36"}'
    entry = f"- name: DRADeviceTaints\n  versionedSpecs:\n  - {spec}\n"
    write(tmp_path, gates.LISTS[0], entry)
    found = {one.name: one for one in gates.differences(Checkout(tmp_path), RELEASE)}
    assert found["DRADeviceTaints"].theirs == "GA on, locked"


def test_a_state_that_needs_a_minimum_compatibility_version_begins_one_release_later(tmp_path: Path) -> None:
    specs = (
        '{default: false, lockToDefault: false, preRelease: Beta, version: "1.37"}',
        '{default: true, lockToDefault: false, preRelease: Beta, version: "1.37", minCompatibilityVersion: "1.37"}',
    )
    listed = "".join(f"  - {spec}\n" for spec in specs)
    write(tmp_path, gates.LISTS[0], f"- name: DRAFractionalCapacityRange\n  versionedSpecs:\n{listed}")
    for release in ("1.37", "1.38"):
        found = {one.name for one in gates.differences(Checkout(tmp_path), release)}
        assert "DRAFractionalCapacityRange" not in found


def test_gates_without_an_effect_are_compared(tmp_path: Path) -> None:
    spec = '{default: false, lockToDefault: false, preRelease: Alpha, version: "1.36"}'
    write(tmp_path, gates.LISTS[0], f"- name: MemoryQoS\n  versionedSpecs:\n  - {spec}\n")
    found = {one.name: (one.theirs, one.ours) for one in gates.differences(Checkout(tmp_path), "1.37")}
    assert found["MemoryQoS"] == ("ALPHA off", "BETA on")


def lifecycle(kind: str, introduced: int, deprecated: int, removed: int) -> str:
    """The generated methods of a kind."""
    return "".join(
        f"func (in *{kind}) APILifecycle{event}() (major, minor int) {{\n\treturn 1, {minor}\n}}\n\n"
        for event, minor in (("Introduced", introduced), ("Deprecated", deprecated), ("Removed", removed))
    )


def test_kinds_that_one_side_alone_serves_differ(tmp_path: Path) -> None:
    text = lifecycle("ResourceClaim", 32, 35, 38) + lifecycle("ResourceClaimList", 32, 35, 38)
    write(tmp_path, f"{API}/resource/v1beta1/{versions.FILE}", text + lifecycle("Chair", 36, 39, 42))
    found = {one.name: (one.theirs, one.ours) for one in versions.differences(Checkout(tmp_path), RELEASE)}
    assert found == {"resource.k8s.io/v1beta1 Chair": ("serves it", "does not serve it")}


def test_a_version_that_the_release_removes_differs_while_cathedra_serves_it(tmp_path: Path) -> None:
    write(tmp_path, f"{API}/resource/v1beta1/{versions.FILE}", lifecycle("ResourceClaim", 32, 35, 36))
    found = [one.theirs for one in versions.differences(Checkout(tmp_path), RELEASE)]
    assert found == ["does not serve it"]


def test_a_deprecation_in_another_release_differs(tmp_path: Path) -> None:
    write(tmp_path, f"{API}/resource/v1beta1/{versions.FILE}", lifecycle("ResourceClaim", 32, 36, 39))
    found = [(one.theirs, one.ours) for one in versions.differences(Checkout(tmp_path), RELEASE)]
    assert found == [("deprecates it in 1.36", "in 1.35")]


TYPES = """
type DeviceTaint struct {
	// +required
	Key string `json:"key" protobuf:"bytes,1,name=key"`
	// +optional
	Value string `json:"value,omitempty" protobuf:"bytes,2,opt,name=value"`
	// +required
	Effect DeviceTaintEffect `json:"effect" protobuf:"bytes,%d,name=effect,casttype=DeviceTaintEffect"`
	// +optional
	TimeAdded *metav1.Time `json:"timeAdded,omitempty" protobuf:"bytes,4,opt,name=timeAdded"`%s
}
"""


def test_types_with_the_same_fields_do_not_differ(tmp_path: Path) -> None:
    write(tmp_path, f"{API}/resource/v1/types.go", TYPES % (3, ""))
    assert list(fields.differences(Checkout(tmp_path), RELEASE)) == []


def test_new_fields_and_other_numbers_differ(tmp_path: Path) -> None:
    added = '\n\tSeat *string `json:"seat,omitempty" protobuf:"bytes,5,opt,name=seat"`'
    write(tmp_path, f"{API}/resource/v1/types.go", TYPES % (6, added))
    found = {one.name: (one.theirs, one.ours) for one in fields.differences(Checkout(tmp_path), RELEASE)}
    assert found == {
        "resource/v1 DeviceTaint.seat": ("has *string", "lacks it"),
        "resource/v1 DeviceTaint.effect protobuf number": ("6", "3"),
    }


def test_a_text_that_cathedra_does_not_write_differs(tmp_path: Path) -> None:
    text = """
	allErrs = append(allErrs, field.Invalid(fldPath, name, "must not contain more than one slash"))
	allErrs = append(allErrs, field.Invalid(fldPath, key, fmt.Sprintf("min is larger than max: %s", a)))
	allErrs = append(allErrs, field.Required(fldPath, "a chair must have a seat"))
"""
    write(tmp_path, texts.FILES[0], text)
    assert [one.name for one in texts.differences(Checkout(tmp_path), RELEASE)] == ["a chair must have a seat"]


def test_rights_that_one_side_alone_grants_differ(tmp_path: Path) -> None:
    name = "system:kube-scheduler"
    assert name in {role.metadata.name for role in cluster_roles(FeatureGates.for_release(RELEASE))}
    rule = "{apiGroups: [resource.k8s.io], resources: [chairs], verbs: [get, list]}"
    write(tmp_path, next(iter(roles.FILES)), f"items:\n- metadata: {{name: '{name}'}}\n  rules: [{rule}]\n")
    found = {one.name: one.theirs for one in roles.differences(Checkout(tmp_path), RELEASE)}
    assert found[f"{name} chairs.resource.k8s.io"] == "grants get list"
    assert found[f"{name} resourceslices.resource.k8s.io"] == "does not grant get list watch"


def test_plugins_that_one_side_alone_has_differ(tmp_path: Path) -> None:
    entries = "".join(f"\t\tx.PluginName, // {name}\n" for name in (*plugins.ADMISSION, "ChairTest"))
    write(
        tmp_path,
        plugins.ADMISSION_FILE,
        f"var AllOrderedPlugins = []string{{\n{entries}}}\n\nfunc DefaultOffAdmissionPlugins() {{\n{entries}\n}}\n",
    )
    weights = "".join(
        f"\t{{Name: names.{name}" + (f", Weight: ptr.To[int32]({weight})" if weight else "") + "},\n"
        for name, weight in (DEFAULT_PLUGINS | {"ImageLocality": 7}).items()
    )
    write(tmp_path, plugins.SCHEDULER_FILE, weights)
    found = {one.name: one.theirs for one in plugins.differences(Checkout(tmp_path), RELEASE)}
    assert found == {"admission ChairTest": "has it on", "scheduler ImageLocality": "has it with weight 7"}


def test_metrics_of_other_components_are_not_compared(tmp_path: Path) -> None:
    entries = (
        "- {name: chairs_total, subsystem: apiserver, componentEndpoints: [{component: kube-apiserver}]}\n"
        "- {name: chairs_total, subsystem: proxy, componentEndpoints: [{component: kube-proxy}]}\n"
        "- {name: request_total, subsystem: apiserver, componentEndpoints: [{component: kube-apiserver}]}\n"
    )
    write(tmp_path, metrics.FILE, entries)
    assert [one.name for one in metrics.differences(Checkout(tmp_path), RELEASE)] == ["apiserver_chairs_total"]


def test_dependencies_of_a_gate_that_differ(tmp_path: Path) -> None:
    block = "var defaultKubernetesFeatureGateDependencies = map[featuregate.Feature][]featuregate.Feature{\n"
    rows = (
        "\tDRADeviceTaintRules: {DynamicResourceAllocation, DRADeviceTaints},\n\n"
        "\tDRAPrioritizedList: {DRADeviceTaints},\n"
    )
    write(tmp_path, gates.FILES[0], GATES % "true" + block + rows + "}\n")
    found = {one.name: (one.theirs, one.ours) for one in gates.differences(Checkout(tmp_path), RELEASE)}
    assert found["DRAPrioritizedList dependencies"] == ("needs DRADeviceTaints", "needs none")
    assert "DRADeviceTaintRules dependencies" not in found


def documents() -> Documents:
    """Our documents with all gates on, as Kubernetes generates its own."""
    gates_on = FeatureGates.for_release(RELEASE, {"AllAlpha": True, "AllBeta": True})
    return Documents(Catalog(served_definitions(all_definitions(gates_on), gates_on, {"api/all": True})), RELEASE)


def test_schemas_that_differ_are_listed_by_property(tmp_path: Path) -> None:
    document = documents().group_version("resource.k8s.io", "v1")
    schemas = document["components"]["schemas"]
    file = openapi.file_of("resource.k8s.io", "v1")
    write(tmp_path, file, json.dumps(document))
    assert list(openapi.differences(Checkout(tmp_path), RELEASE)) == []
    schemas["io.k8s.api.resource.v1.DeviceTaint"]["properties"]["key"]["default"] = "x"
    schemas["io.k8s.api.resource.v1.DeviceTaint"]["required"] = ["key"]
    schemas["io.k8s.api.resource.v1.Chair"] = {"type": "object", "description": "a seat"}
    schemas["io.k8s.api.resource.v1.Device"]["description"] = "other words"
    write(tmp_path, file, json.dumps(document))
    assert [one.name for one in openapi.differences(Checkout(tmp_path), RELEASE)] == [
        "resource.v1.Chair",
        "resource.v1.DeviceTaint.key",
        "resource.v1.DeviceTaint required",
    ]


def test_enumerations_are_compared_only_if_the_document_has_any(tmp_path: Path) -> None:
    """The documents of Kubernetes' repository are written without enumerations."""
    document = documents().group_version("resource.k8s.io", "v1")
    fields = document["components"]["schemas"]["io.k8s.api.resource.v1.DeviceTaint"]["properties"]
    assert fields["effect"]["enum"]
    for schema in document["components"]["schemas"].values():
        for field in schema.get("properties", {}).values():
            field.pop("enum", None)
    write(tmp_path, openapi.file_of("resource.k8s.io", "v1"), json.dumps(document))
    assert list(openapi.differences(Checkout(tmp_path), RELEASE)) == []
    fields["effect"]["enum"] = ["NoSchedule"]
    write(tmp_path, openapi.file_of("resource.k8s.io", "v1"), json.dumps(document))
    assert "resource.v1.DeviceTaint.effect" in {one.name for one in openapi.differences(Checkout(tmp_path), RELEASE)}


def test_the_document_of_version_2_is_compared_with_every_group(tmp_path: Path) -> None:
    ours = documents()
    definitions = {
        name: json.loads(bytes(raw))
        for document in (
            *(ours.group_version(*one) for one in ours.group_versions()),
            *map(ours.around, ("api", "apis", "apis/apps", "version")),
        )
        for name, raw in swagger_part(document).definitions.items()
    }
    definitions["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"]["format"] = "int64"
    write(tmp_path, openapi.SWAGGER, json.dumps({"definitions": definitions}))
    assert [one.name for one in openapi.differences(Checkout(tmp_path), RELEASE)] == ["apps.v1.DeploymentSpec.replicas"]
