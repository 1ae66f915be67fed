"""Rules of a pod's spec, alone and in a template."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.core.pods.validation._spec import (
    validate_affinity,
    validate_any_pod,
    validate_dns_config,
    validate_gates,
    validate_pod,
    validate_pod_template,
    validate_spread,
    validate_tolerations,
)
from tests.unit.kinds.objects import context, created, definition_of, pod, texts

SPREAD = {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}


def problems(made: core_v1.Pod) -> list[str]:
    return texts(created(definition_of("pods").strategy, made, context())[1])


def stored(made: core_v1.Pod) -> core_v1.Pod:
    """The pod with its defaults, whatever is wrong with it."""
    found: core_v1.Pod = definition_of("pods").strategy.default(made, context())
    return found


def test_a_plain_pod_is_accepted() -> None:
    assert problems(pod()) == []


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"restartPolicy": "Sometimes"}, 'spec.restartPolicy: Unsupported value: "Sometimes"'),
        ({"dnsPolicy": "x"}, 'spec.dnsPolicy: Unsupported value: "x"'),
        ({"nodeName": "A"}, 'spec.nodeName: Invalid value: "A": a lowercase RFC 1123 subdomain'),
        (
            {"activeDeadlineSeconds": 0},
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 1}]},
            "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute'",
        ),
        (
            {"tolerations": [{"operator": "Equal"}]},
            'spec.tolerations[0].operator: Invalid value: "Equal": operator must',
        ),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, 'spec.volumes[1].name: Duplicate value: "v"'),
        (
            {"resources": {"claims": [{"name": "a"}]}, "resourceClaims": [{"name": "a", "resourceClaimName": "c"}]},
            "spec.resources.claims: Forbidden: claims may not be set",
        ),
        ({"ephemeralContainers": [{"name": "e", "image": "i"}]}, "spec.ephemeralContainers: Forbidden: cannot be set"),
        ({"restartPolicy": "no"}, 'Unsupported value: "no": supported values: "Always", "OnFailure", "Never"'),
        ({"dnsPolicy": "no"}, 'supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"'),
        (
            {"tolerations": [{"operator": "Exists", "effect": "no"}]},
            'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ),
        (
            {"topologySpreadConstraints": [SPREAD | {"nodeAffinityPolicy": "no"}]},
            'nodeAffinityPolicy: Unsupported value: "no": supported values: "Honor", "Ignore"',
        ),
        (
            {"topologySpreadConstraints": [SPREAD | {"nodeTaintsPolicy": "no"}]},
            'nodeTaintsPolicy: Unsupported value: "no": supported values: "Honor", "Ignore"',
        ),
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/", "type": "no"}}]},
            'spec.volumes[0].hostPath.type: Unsupported value: "no": supported values: "", "BlockDevice"',
        ),
        ({"nodeName": "n", "schedulingGates": [{"name": "g"}]}, "spec.nodeName: Forbidden: cannot be set until all"),
        ({"initContainers": [{"name": "c", "image": "i"}]}, 'spec.initContainers[0].name: Duplicate value: "c"'),
    ],
)
def test_a_pod_spec_is_checked(spec: dict[str, Any], wanted: str) -> None:
    made = pod(**{name: value for name, value in spec.items() if name != "containers"})
    if "containers" in spec:
        made = replace(made, spec=replace(made.spec, containers=()))
    (text,) = problems(made)
    assert wanted in text


def test_claims_of_a_pod_as_a_whole_are_forbidden_and_looked_at_all_the_same() -> None:
    assert problems(pod(resources={"claims": [{"name": "a"}]})) == [
        "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
        'spec.resources.claims[0]: Not found: "a": must be one of the names in pod.spec.resourceClaims which is empty',
    ]


@pytest.mark.parametrize(
    ("container", "wanted"),
    [
        ({"name": ""}, "name: Required value"),
        ({"name": "A"}, 'name: Invalid value: "A": a lowercase RFC 1123 label must consist of'),
        ({"image": ""}, "image: Required value"),
        ({"imagePullPolicy": "x"}, 'imagePullPolicy: Unsupported value: "x"'),
        (
            {"terminationMessagePolicy": "x"},
            'terminationMessagePolicy: Unsupported value: "x": supported values: "File", "FallbackToLogsOnError"',
        ),
        ({"ports": [{"containerPort": 0}]}, "ports[0].containerPort: Required value"),
        ({"ports": [{"containerPort": 70000}]}, "ports[0].containerPort: Invalid value: 70000: must be between 1"),
        ({"ports": [{"containerPort": 1, "name": "a--b"}]}, 'ports[0].name: Invalid value: "a--b": must not contain'),
        ({"env": [{"name": "a=b"}]}, 'env[0].name: Invalid value: "a=b"'),
        ({"env": [{"name": "a", "valueFrom": {}}]}, 'env[0].valueFrom: Invalid value: "": must specify one of'),
        ({"volumeMounts": [{"name": "v", "mountPath": "/x"}]}, 'volumeMounts[0].name: Not found: "v"'),
        ({"livenessProbe": {}}, "livenessProbe: Required value: must specify a handler type"),
    ],
)
def test_containers_are_checked_in_their_place(container: dict[str, Any], wanted: str) -> None:
    (text,) = problems(pod(container))
    assert text.startswith(f"spec.containers[0].{wanted}")


def test_a_mirror_of_a_static_pod_names_its_node() -> None:
    mirror = pod(metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    (text,) = problems(mirror)
    assert text.startswith('metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": ')
    assert text.endswith("must set spec.nodeName if mirror pod annotation is set")
    assert problems(replace(mirror, spec=replace(mirror.spec, node_name="n"))) == []


@pytest.mark.parametrize("image", [" i", "i ", "i\n"])
def test_an_image_has_no_white_space_around_it(image: str) -> None:
    wanted = ".image: Invalid value: " + json.dumps(image) + ": must not have leading or trailing whitespace"
    assert problems(pod({"image": image})) == [f"spec.containers[0]{wanted}"]
    assert problems(pod(initContainers=[{"name": "d", "image": image}])) == [f"spec.initContainers[0]{wanted}"]


@pytest.mark.parametrize(
    "field", ["serviceAccountName", "nodeName", "hostname", "subdomain", "priorityClassName", "runtimeClassName"]
)
def test_names_in_a_spec_have_the_form_of_what_they_name(field: str) -> None:
    (text,) = problems(pod(**{field: "A_b"}))
    assert text.startswith(f'spec.{field}: Invalid value: "A_b": a lowercase RFC 1123')
    assert problems(pod(**{field: "a-b"})) == []


@pytest.mark.parametrize("field", ["hostname", "subdomain"])
def test_parts_of_a_host_name_are_single_labels(field: str) -> None:
    (text,) = problems(pod(**{field: "a.b"}))
    assert text.startswith(f'spec.{field}: Invalid value: "a.b"')


def test_a_pod_group_is_named_like_an_object() -> None:
    assert problems(pod(schedulingGroup={"podGroupName": "a.b"})) == []
    (text,) = texts(validate_any_pod(stored(pod(schedulingGroup={"podGroupName": "A"}))))
    assert text.startswith('spec.schedulingGroup.podGroupName: Invalid value: "A": a lowercase RFC 1123 subdomain')


def test_a_reference_to_a_workload_has_names() -> None:
    reference = {"name": "a.b", "podGroup": "g", "podGroupReplicaKey": "k"}
    assert problems(pod(workloadRef=reference)) == []
    found = texts(
        validate_any_pod(stored(pod(workloadRef={"name": "A", "podGroup": "a.b", "podGroupReplicaKey": "B"})))
    )
    assert [text.partition(":")[0] for text in found] == [
        "spec.workloadRef.name",
        "spec.workloadRef.podGroup",
        "spec.workloadRef.podGroupReplicaKey",
    ]
    (text,) = texts(validate_any_pod(stored(pod(schedulingGroup={}))))
    assert text == 'spec.schedulingGroup: Invalid value: "": must specify one of: `podGroupName`'


def test_ephemeral_containers_come_later_and_never_with_a_template() -> None:
    made = stored(pod(ephemeralContainers=[{"name": "e", "image": "i"}]))
    assert texts(validate_any_pod(made)) == []
    assert texts(validate_pod(made)) == ["spec.ephemeralContainers: Forbidden: cannot be set on create"]
    template = core_v1.PodTemplateSpec(metadata=made.metadata, spec=made.spec)
    assert texts(validate_pod_template(template, FieldPath("t"))) == [
        "t.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"
    ]


def test_a_template_is_checked_below_its_own_path() -> None:
    made = stored(pod(metadata={"labels": {"a b": "c"}}, restartPolicy="Sometimes"))
    template = core_v1.PodTemplateSpec(metadata=made.metadata, spec=made.spec)
    found = texts(validate_pod_template(template, FieldPath("spec").child("template")))
    assert [text.split(": ")[0] for text in found] == ["spec.template.labels", "spec.template.spec.restartPolicy"]


def test_problems_come_in_the_order_of_kubernetes() -> None:
    """Clients compare whole messages: volumes, claims, containers, policies, names, deadline, tolerations."""
    broken = pod(
        {"image": ""},
        volumes=[{"name": "v"}, {"name": "v"}],
        resourceClaims=[{"name": "a", "resourceClaimName": "A"}],
        restartPolicy="x",
        nodeName="A",
        activeDeadlineSeconds=0,
        tolerations=[{"operator": "Equal"}],
    )
    assert [text.split(":")[0] for text in problems(broken)] == [
        "spec.volumes[1].name",
        "spec.resourceClaims[0].resourceClaimName",
        "spec.containers[0].image",
        "spec.restartPolicy",
        "spec.nodeName",
        "spec.activeDeadlineSeconds",
        "spec.tolerations[0].operator",
    ]


def problems_of_dns(policy: str = "ClusterFirst", config: dict[str, Any] | None = None) -> list[str]:
    errors = ErrorList()
    body: dict[str, Any] = {"containers": [], "dnsPolicy": policy}
    if config is not None:
        body["dnsConfig"] = config
    validate_dns_config(errors, FieldPath("d"), from_dict(core_v1.PodSpec, body))
    return texts(errors)


def test_a_pod_needs_no_configuration_unless_it_has_no_policy() -> None:
    assert problems_of_dns() == []
    assert problems_of_dns("None") == ["d: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]
    assert problems_of_dns("None", {"searches": ["a"]}) == [
        "d.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"
    ]


def test_what_resolvers_take() -> None:
    searches = ["ns.svc.cluster.local.", "_tcp.example.com", "."]
    config = {
        "nameservers": ["10.0.0.1", "fd00::1"],
        "searches": searches,
        "options": [{"name": "ndots", "value": "2"}],
    }
    assert problems_of_dns("None", config) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"nameservers": ["dns"]},
            'd.nameservers[0]: Invalid value: "dns": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        ),
        ({"options": [{"value": "x"}]}, "d.options[0]: Required value: must not be empty"),
    ],
)
def test_what_they_do_not_take(config: dict[str, Any], expected: str) -> None:
    assert problems_of_dns(config=config) == [expected]


def test_there_are_limits() -> None:
    (text,) = problems_of_dns(config={"nameservers": ["1.1.1.1"] * 4})
    assert text.endswith("must not have more than 3 nameservers")
    found = problems_of_dns(config={"searches": ["a" * 63 + "." + "b" * 3] * 33})
    assert [text.rpartition(": ")[2] for text in found] == [
        "must not have more than 32 search paths",
        "must not have more than 2048 characters (including spaces) in the search list",
    ]
    (text,) = problems_of_dns(config={"searches": ["a b"]})
    assert text.startswith('d.searches[0]: Invalid value: "a b": a lowercase RFC 1123 subdomain')


PATH = FieldPath("x")


@pytest.mark.parametrize(
    ("toleration", "wanted"),
    [
        ({"key": "a", "operator": "Exists"}, []),
        ({"operator": "Exists"}, []),
        ({"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}, []),
        ({"value": "b"}, ['x[0].operator: Invalid value: "": operator must be Exists when `key` is empty']),
        (
            {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5},
            ["x[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
        ),
        ({"key": "a", "operator": "Exists", "value": "b"}, ["x[0].operator: Invalid value: "]),
        ({"key": "a", "operator": "Near"}, ['x[0].operator: Unsupported value: "Near": supported values: ']),
        ({"key": "a", "effect": "Later"}, ['x[0].effect: Unsupported value: "Later": supported values: ']),
        ({"key": "a", "value": "-"}, ['x[0].operator: Invalid value: "-": a valid label must be']),
    ],
)
def test_the_parts_of_a_toleration_agree(toleration: dict[str, Any], wanted: list[str]) -> None:
    errors = ErrorList()
    validate_tolerations(errors, PATH, [from_dict(core_v1.Toleration, toleration)])
    found = texts(errors)
    assert len(found) == len(wanted)
    assert all(one.startswith(start) for one, start in zip(found, wanted, strict=True))


def test_gates_have_names_of_their_own() -> None:
    errors = ErrorList()
    gates = [core_v1.PodSchedulingGate(name=name) for name in ("a.b/c", "d", "a.b/c", "e f")]
    validate_gates(errors, PATH, gates)
    first, second = texts(errors)
    assert first == 'x[2]: Duplicate value: "a.b/c"'
    assert second.startswith('x[3]: Invalid value: "e f"')


def affinity(**kinds: Any) -> list[str]:
    errors = ErrorList()
    validate_affinity(errors, PATH, from_dict(core_v1.Affinity, kinds))
    return texts(errors)


def test_no_affinity_is_fine() -> None:
    errors = ErrorList()
    validate_affinity(errors, PATH, None)
    assert texts(errors) == []


@pytest.mark.parametrize("weight", [0, 101])
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_weights_lie_between_1_and_100(kind: str, weight: int) -> None:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    term = {"weight": weight, "podAffinityTerm": {"topologyKey": "zone"}}
    assert affinity(**{kind: {preferred: [{**term, "weight": 1}, term]}}) == [
        f"x.{kind}.{preferred}[1].weight: Invalid value: {weight}: must be in the range 1-100"
    ]


def test_a_term_about_pods_names_a_topology() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    assert affinity(podAffinity={required: [{}]}) == [
        f"x.podAffinity.{required}[0].topologyKey: Required value: can not be empty"
    ]


def test_a_spread_constraint_is_complete_and_stands_once() -> None:
    good = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}

    def found(*given: dict[str, Any]) -> list[str]:
        errors = ErrorList()
        validate_spread(errors, PATH, [from_dict(core_v1.TopologySpreadConstraint, one) for one in given])
        return texts(errors)

    assert found(good, {**good, "whenUnsatisfiable": "ScheduleAnyway"}) == []
    assert found({**good, "maxSkew": 0}) == ["x[0].maxSkew: Invalid value: 0: must be greater than zero"]
    assert found({**good, "topologyKey": ""}) == ["x[0].topologyKey: Required value: can not be empty"]
    (wrong,) = found({**good, "whenUnsatisfiable": "Never"})
    assert wrong.startswith('x[0].whenUnsatisfiable: Unsupported value: "Never"')
    assert found(good, good) == ['x[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}"']
