"""What may change about a pod that is there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core import core_v1
from cathedra.api.field import go_json
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.core.pods.validation._changes import spec_difference, validate_ephemeral_containers_update
from tests.unit.kinds.objects import context, created, definition_of, pod, texts, updated


def stored(made: core_v1.Pod) -> core_v1.Pod:
    found: core_v1.Pod = created(definition_of("pods").strategy, made, context())[0]
    return found


def change(old: core_v1.Pod, **spec: Any) -> list[str]:
    new = replace(old, spec=replace(old.spec, **spec))
    return texts(updated(definition_of("pods").strategy, new, old, context())[1])


def test_images_tolerations_and_gates_may_change() -> None:
    old = stored(pod(schedulingGates=[{"name": "g"}]))
    other = replace(old.spec.containers[0], image="j")
    more = (core_v1.Toleration(key="k", operator="Exists"),)
    assert change(old, containers=(other,), tolerations=more, scheduling_gates=()) == []


def test_anything_else_is_shown_with_the_difference() -> None:
    old = stored(pod(resourceClaims=[{"name": "a", "resourceClaimName": "x"}]))
    (text,) = change(old, resource_claims=(core_v1.PodResourceClaim(name="a", resource_claim_name="y"),))
    assert text.startswith("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`")
    assert '\n-   "ResourceClaimName": "x",\n+   "ResourceClaimName": "y",\n' in text


def test_a_gate_cannot_be_added() -> None:
    (text,) = change(stored(pod()), scheduling_gates=(core_v1.PodSchedulingGate(name="g"),))
    wanted = "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"
    assert text == wanted


def test_a_gated_pod_may_become_pickier_and_no_other() -> None:
    assert change(stored(pod(schedulingGates=[{"name": "g"}])), node_selector={"a": "b"}) == []
    assert change(stored(pod()), node_selector={"a": "b"}) != []


def test_containers_are_neither_added_nor_removed() -> None:
    old = stored(pod())
    assert change(old, containers=()) == [
        "spec.containers: Required value",
        "spec.containers: Forbidden: pod updates may not add or remove containers",
    ]


def test_an_ephemeral_container_joins_without_resources() -> None:
    old = stored(pod())
    strategy = definition_of("pods").subresources["ephemeralcontainers"]
    container = from_dict(core_v1.EphemeralContainer, {"name": "e", "image": "i"})
    new = replace(old, spec=replace(old.spec, ephemeral_containers=(container,), node_name="ignored"))
    made, errors = updated(strategy, new, old, context())
    assert errors == []
    assert (made.spec.node_name, made.metadata.generation) == ("", 2)
    greedy = replace(container, resources=from_dict(core_v1.ResourceRequirements, {"requests": {"cpu": "1"}}))
    new = replace(old, spec=replace(old.spec, ephemeral_containers=(greedy,)))
    assert texts(updated(strategy, new, old, context())[1]) == [
        "spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container"
    ]
    gone = updated(strategy, old, made, context())[1]
    assert texts(gone) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be removed\n'
    ]


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        (None, 5, []),
        (9, 5, []),
        (9, 9, []),
        (5, 9, ["must be less than or equal to previous value"]),
        (5, None, ["must not update from a positive integer to nil value"]),
    ],
)
def test_a_deadline_only_comes_nearer(before: int | None, after: int | None, wanted: list[str]) -> None:
    old = stored(pod(activeDeadlineSeconds=before) if before is not None else pod())
    found = change(old, active_deadline_seconds=after)
    assert [text.rsplit(": ", 1)[1] for text in found] == wanted


@pytest.mark.parametrize(("before", "after", "accepted"), [(-1, 1, True), (-1, 2, False), (30, 1, False)])
def test_a_negative_grace_period_may_become_one_second(before: int, after: int, accepted: bool) -> None:
    old = stored(pod(terminationGracePeriodSeconds=before))
    assert (change(old, termination_grace_period_seconds=after) == []) is accepted


def test_a_toleration_stays_but_its_seconds_may_change() -> None:
    old = stored(pod(tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]))
    (toleration,) = old.spec.tolerations
    assert change(old, tolerations=(replace(toleration, toleration_seconds=9),)) == []
    assert change(old, tolerations=(replace(toleration, key="l"),)) == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


def narrowed(*expressions: dict[str, Any]) -> dict[str, Any]:
    term = {"matchExpressions": list(expressions)}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
DISK = {"key": "disk", "operator": "Exists"}


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        ((), (ZONE,), True),
        ((ZONE,), (ZONE, DISK), True),
        ((ZONE,), (DISK, ZONE), False),
        ((ZONE, DISK), (ZONE,), False),
        ((ZONE,), (), False),
    ],
)
def test_the_affinity_of_a_gated_pod_only_narrows(
    before: tuple[dict[str, Any], ...], after: tuple[dict[str, Any], ...], accepted: bool
) -> None:
    spec = {"affinity": narrowed(*before)} if before else {}
    old = stored(pod(schedulingGates=[{"name": "g"}], **spec))
    affinity = from_dict(core_v1.Affinity, narrowed(*after)) if after else None
    assert (change(old, affinity=affinity) == []) is accepted


def test_the_affinity_of_a_pod_without_gates_stays() -> None:
    assert change(stored(pod()), affinity=from_dict(core_v1.Affinity, narrowed(ZONE))) != []


def test_node_labels_that_a_gated_pod_wants_are_only_added() -> None:
    old = stored(pod(schedulingGates=[{"name": "g"}], nodeSelector={"a": "b"}))
    assert change(old, node_selector={"a": "b", "c": "d"}) == []
    (text,) = change(old, node_selector={"a": "x"})
    assert text.startswith("spec.nodeSelector: Invalid value: ")
    assert text.endswith("only additions to spec.nodeSelector are allowed (no mutations or deletions)")


def test_static_pods_are_not_debugged() -> None:
    static = stored(pod(nodeName="n", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}))
    assert texts(validate_ephemeral_containers_update(static, static, "1.37")) == [
        "[]: Forbidden: static pods do not support ephemeral containers"
    ]


def test_an_ephemeral_container_that_is_there_does_not_change() -> None:
    container = from_dict(core_v1.EphemeralContainer, {"name": "e", "image": "i"})
    old = stored(pod())
    old = stored(replace(old, spec=replace(old.spec, ephemeral_containers=(container,))))
    (before,) = old.spec.ephemeral_containers
    new = replace(old, spec=replace(old.spec, ephemeral_containers=(replace(before, image="j"),)))
    (found,) = texts(validate_ephemeral_containers_update(new, old, "1.37"))
    assert found.startswith(
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "e" may not be changed\n@@ -1,6 +1,6 @@\n'
    )
    assert '- "Image": "i",\n+ "Image": "j",\n' in found


def test_a_difference_has_the_fields_of_its_release() -> None:
    old = spec(volumes=[{"name": "v", "emptyDir": {}}], nodeName="a")
    lines = [spec_difference(old, replace(old, node_name="b"), release).splitlines()[0] for release in ("1.36", "1.37")]
    assert lines[0] != lines[1]  # EmptyDirVolumeSource.mode exists since 1.37


def spec(**values: object) -> core_v1.PodSpec:
    return pod(**values).spec


def changed(difference: str) -> list[str]:
    """The lines that are not context."""
    return [line for line in difference.split("\n") if line[:1] in ("+", "-")]


def test_equal_specs_differ_in_nothing() -> None:
    assert spec_difference(spec(nodeName="n"), spec(nodeName="n"), "1.37") == ""


def test_a_difference_shows_three_lines_around_each_change_and_no_names_of_files() -> None:
    difference = spec_difference(spec(nodeName="a"), spec(nodeName="b"), "1.37")
    head, *lines = difference.splitlines()
    assert head.startswith("@@ -")
    assert [line[0] for line in lines] == [" ", " ", " ", "-", "+", " ", " ", " "]
    assert changed(difference) == ['- "NodeName": "a",', '+ "NodeName": "b",']


def test_fields_carry_the_names_of_the_internal_form() -> None:
    difference = spec_difference(spec(dnsPolicy="Default"), spec(dnsPolicy="None", os={"name": "linux"}), "1.37")
    assert [line[1:].split(":")[0].strip() for line in changed(difference)] == [
        '"DNSPolicy"',
        '"DNSPolicy"',
        '"OS"',
        '"OS"',
        '"Name"',
        "},",
    ]


def test_what_concerns_the_host_is_in_the_security_context() -> None:
    """Kubernetes keeps host namespaces in its internal security context, so a spec without one cannot show them."""
    with_context = spec(securityContext={"runAsUser": 1})
    difference = spec_difference(with_context, replace(with_context, host_network=True), "1.37")
    assert changed(difference) == ['-  "HostNetwork": false,', '+  "HostNetwork": true,']
    bare = replace(with_context, security_context=None)
    assert spec_difference(bare, replace(bare, host_network=True), "1.37") == ""


def test_empty_lists_and_maps_are_null_and_amounts_are_texts() -> None:
    first = from_dict(core_v1.PodSpec, {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]})
    difference = spec_difference(first, replace(first, node_selector={"a": "b"}), "1.37")
    assert changed(difference) == ['- "NodeSelector": null,', '+ "NodeSelector": {', '+  "a": "b"', "+ },"]
    other = from_dict(core_v1.PodSpec, {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]})
    assert changed(spec_difference(first, other, "1.37")) == ['-     "cpu": "1"', '+     "cpu": "2"']


@given(st.text(max_size=8), st.text(max_size=8))
def test_the_lines_of_both_sides_are_the_values_of_both_sides(before: str, after: str) -> None:
    lines = changed(spec_difference(spec(hostname=before), spec(hostname=after), "1.37"))
    if before == after:
        assert lines == []
        return
    assert lines == [
        f'- "Hostname": {go_json(before)},',
        f'+ "Hostname": {go_json(after)},',
    ]


def test_of_a_long_spec_the_lines_around_the_first_change_are_compared() -> None:
    """To compare all lines with all takes half a minute for 10,000 changed variables."""
    first, second = (
        spec(containers=[{"name": "c", "env": [{"name": f"n{number}", "value": value} for number in range(5000)]}])
        for value in ("a", "b")
    )
    difference = spec_difference(first, second, "1.37")
    assert changed(difference)[:2] == ['-     "Value": "a",', '+     "Value": "b",']
    assert difference.endswith("… (cut)\n")
    assert len(difference.splitlines()) < 700


def test_lines_of_a_long_spec_keep_their_numbers() -> None:
    labels = {f"n{number:04}": "v" for number in range(2000)}
    first, second = spec(nodeSelector=labels, nodeName="a"), spec(nodeSelector=labels, nodeName="b")
    heading, *lines = spec_difference(first, second, "1.37").splitlines()
    place = int(heading.split(",")[0].removeprefix("@@ -"))
    assert place > 2000
    assert changed("\n".join(lines)) == ['- "NodeName": "a",', '+ "NodeName": "b",']


def test_lists_of_a_later_release_are_not_shown_empty() -> None:
    mounted = [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]
    old = from_dict(core_v1.PodSpec, {"containers": mounted, "nodeName": "a"})
    one, other = (
        int(spec_difference(old, replace(old, node_name="b"), release).split(",")[0].removeprefix("@@ -"))
        for release in ("1.36", "1.37")
    )
    assert other == one + 1  # bindMountOptions
