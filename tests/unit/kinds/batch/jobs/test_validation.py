"""Rules of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.batch_v1 import Job, PodFailurePolicy, SuccessPolicy, SuccessPolicyRule
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.batch.jobs.validation import BadIndexes, count_indexes
from tests.unit.kinds.objects import context, created, definition_of, texts, updated

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


def job(template: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> Job:
    metadata = {"name": "j", "namespace": "default", "uid": "u"}
    whole = {"metadata": metadata, "spec": {"template": template or TEMPLATE, **spec}, "status": status or {}}
    return from_dict(Job, whole)


def stored(made: Job) -> Job:
    found: Job = created(definition_of("jobs").strategy, made, context())[0]
    return found


def problems(made: Job) -> list[str]:
    return texts(created(definition_of("jobs").strategy, made, context())[1])


@pytest.mark.parametrize(
    "field", ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
)
def test_numbers_are_not_negative(field: str) -> None:
    assert problems(job(**{field: -1})) == [f"spec.{field}: Invalid value: -1: must be greater than or equal to 0"]


def test_an_indexed_job_says_how_many_indexes() -> None:
    assert problems(job(completionMode="Indexed", completions=2)) == []
    wanted = "spec.completions: Required value: when completion mode is Indexed"
    assert problems(job(completionMode="Indexed", parallelism=1)) == [wanted]


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ("OnFailure", []),
        ("Always", ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
        ("", ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
    ],
)
def test_pods_of_a_job_come_to_an_end(policy: str, wanted: list[str]) -> None:
    template = {"spec": {**TEMPLATE["spec"], "restartPolicy": policy}}
    assert [text for text in problems(job(template)) if "restartPolicy" in text] == wanted


def change(old: Job, **spec: Any) -> list[str]:
    new = from_dict(Job, {"spec": spec})
    changed = {name: getattr(new.spec, name) for name in ("completions", "parallelism") if getattr(new.spec, name)}
    return texts(
        updated(definition_of("jobs").strategy, replace(old, spec=replace(old.spec, **changed)), old, context())[1]
    )


def test_completions_are_fixed_unless_an_indexed_job_grows_as_a_whole() -> None:
    plain = stored(job(completions=2, parallelism=2))
    assert change(plain, completions=3) == ["spec.completions: Invalid value: 3: field is immutable"]
    indexed = stored(job(completions=2, parallelism=2, completionMode="Indexed"))
    assert change(indexed, completions=3) == ["spec.completions: Invalid value: 3: field is immutable"]
    assert change(indexed, completions=3, parallelism=3) == []


MOVED = {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}
RESIZED = {
    **TEMPLATE["spec"],
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}}],
}
NEW_IMAGE = {**TEMPLATE["spec"], "containers": [{"name": "c", "image": "other"}]}
NODES = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
NEAR_NODES = {**TEMPLATE["spec"], "affinity": {"nodeAffinity": NODES}}
NEAR_PODS = {**TEMPLATE["spec"], "affinity": {"podAffinity": {}}}
NEVER_RAN: dict[str, Any] = {}
RAN = {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}
STILL_RUNS = {**RAN, "active": 1}


@pytest.mark.parametrize(
    ("release", "status", "spec", "allowed"),
    [
        ("1.34", NEVER_RAN, MOVED, True),
        ("1.34", RAN, MOVED, False),
        ("1.35", RAN, MOVED, False),
        ("1.36", RAN, MOVED, True),
        ("1.37", RAN, MOVED, True),
        ("1.37", STILL_RUNS, MOVED, False),
        ("1.37", NEVER_RAN, NEAR_NODES, True),
        ("1.37", NEVER_RAN, NEAR_PODS, False),
        ("1.37", NEVER_RAN, NEW_IMAGE, False),
        ("1.35", NEVER_RAN, RESIZED, False),
        ("1.36", NEVER_RAN, RESIZED, True),
        ("1.36", RAN, RESIZED, True),
        ("1.36", STILL_RUNS, RESIZED, False),
    ],
)
def test_what_may_change_in_the_template_of_a_suspended_job(
    release: str, status: dict[str, Any], spec: dict[str, Any], allowed: bool
) -> None:
    old = replace(stored(job(suspend=True)), status=job(status=status).status)
    template = replace(old.spec.template, spec=stored(job({"spec": spec}, suspend=True)).spec.template.spec)
    new = replace(old, spec=replace(old.spec, template=template))
    told = texts(updated(definition_of("jobs").strategy, new, old, context(release))[1])
    assert any("spec.template" in one and "field is immutable" in one for one in told) != allowed


def test_a_running_job_keeps_its_template() -> None:
    old = stored(job())
    template = replace(old.spec.template, spec=stored(job({"spec": MOVED})).spec.template.spec)
    new = replace(old, spec=replace(old.spec, template=template))
    told = texts(updated(definition_of("jobs").strategy, new, old, context())[1])
    assert any("spec.template" in one for one in told)


CODES = {"operator": "In", "values": [1, 2]}
RULE = {"action": "FailJob", "onExitCodes": CODES}
INDEXED: dict[str, Any] = {"completionMode": "Indexed", "completions": 5, "parallelism": 1}
FIRST = "spec.podFailurePolicy.rules[0]"
QUALIFIED = "name part must consist of alphanumeric characters"


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (RULE, []),
        ({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}, []),
        (
            {**RULE, "action": ""},
            [f'{FIRST}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'],
        ),
        (
            {**RULE, "action": "Retry"},
            [
                f'{FIRST}.action: Unsupported value: "Retry": supported values: '
                '"Count", "FailIndex", "FailJob", "Ignore"'
            ],
        ),
        (
            {**RULE, "action": "FailIndex"},
            [f'{FIRST}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'],
        ),
        (
            {"action": "Count"},
            [f"{FIRST}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"],
        ),
        (
            {**RULE, "onPodConditions": [{"type": "T", "status": "True"}]},
            [f"{FIRST}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"],
        ),
        (
            {**RULE, "onExitCodes": {**CODES, "operator": ""}},
            [f'{FIRST}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]'],
        ),
        (
            {**RULE, "onExitCodes": {**CODES, "containerName": "other"}},
            [
                f'{FIRST}.onExitCodes.containerName: Invalid value: "other": '
                "must be one of the container or initContainer names in the pod template"
            ],
        ),
        (
            {**RULE, "onExitCodes": {**CODES, "values": [0, 3, 3]}},
            [
                f"{FIRST}.onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
                f"{FIRST}.onExitCodes.values[2]: Duplicate value: 3",
            ],
        ),
        (
            {"action": "Count", "onPodConditions": [{"type": "T", "status": "Foo"}]},
            [
                f'{FIRST}.onPodConditions[0].status: Unsupported value: "Foo": supported values: "False", "True", '
                '"Unknown"'
            ],
        ),
    ],
)
def test_a_failure_policy_is_checked(rule: dict[str, Any], wanted: list[str]) -> None:
    assert problems(job(podFailurePolicy={"rules": [rule]})) == wanted


@pytest.mark.parametrize(
    ("codes", "wanted"),
    [([19, 11], "must be ordered"), ([], "at least one value is required")],
)
def test_exit_codes_are_ascending_and_there(codes: list[int], wanted: str) -> None:
    rule = {**RULE, "onExitCodes": {"operator": "In", "values": codes}}
    (text,) = problems(job(podFailurePolicy={"rules": [rule]}))
    assert text.startswith(f"{FIRST}.onExitCodes.values: Invalid value: ")
    assert text.endswith(wanted)


def test_lists_of_a_failure_policy_are_bounded() -> None:
    found = problems(job(podFailurePolicy={"rules": [RULE] * 21}))
    assert found == ["spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"]
    rule = {**RULE, "onExitCodes": {"operator": "NotIn", "values": list(range(256))}}
    found = problems(job(podFailurePolicy={"rules": [rule]}))
    assert found == [f"{FIRST}.onExitCodes.values: Too many: 256: must have at most 255 items"]
    patterns = [{"type": f"T{number}", "status": "True"} for number in range(21)]
    found = problems(job(podFailurePolicy={"rules": [{"action": "Count", "onPodConditions": patterns}]}))
    assert found == [f"{FIRST}.onPodConditions: Too many: 21: must have at most 20 items"]


def test_types_of_conditions_are_qualified_names() -> None:
    rule = {"action": "Count", "onPodConditions": [{"type": "a b", "status": "True"}]}
    (text,) = problems(job(podFailurePolicy={"rules": [rule]}))
    assert text.startswith(f'{FIRST}.onPodConditions[0].type: Invalid value: "a b": {QUALIFIED}')


def test_pods_with_a_failure_policy_are_never_restarted_and_replaced_late() -> None:
    restarting = {"spec": {**TEMPLATE["spec"], "restartPolicy": "OnFailure"}}
    found = problems(job(restarting, podFailurePolicy={"rules": [RULE]}))
    only = 'only "Never" is supported when podFailurePolicy is specified'
    assert found == [f'spec.template.spec.restartPolicy: Invalid value: "OnFailure": {only}']
    found = problems(job(podFailurePolicy={"rules": [RULE]}, podReplacementPolicy="TerminatingOrFailed"))
    wanted = 'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"'
    assert found == [wanted]
    (text,) = problems(job(podReplacementPolicy="Never"))
    assert text.endswith('supported values: "Failed", "TerminatingOrFailed"')


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({"succeededIndexes": "0-2", "succeededCount": 3}, []),
        ({}, [": Required value: at least one of succeededCount or succeededIndexes must be specified"]),
        (
            {"succeededCount": 6},
            [
                ".succeededCount: Invalid value: 6: must be less than or equal to 5 "
                "(the number of specified completions)"
            ],
        ),
        (
            {"succeededCount": 4, "succeededIndexes": "0-2"},
            [
                ".succeededCount: Invalid value: 4: must be less than or equal to 3 "
                "(the number of indexes in the specified succeededIndexes field)"
            ],
        ),
        ({"succeededCount": -1}, [".succeededCount: Invalid value: -1: must be greater than or equal to 0"]),
        (
            {"succeededIndexes": "invalid-format"},
            [
                '.succeededIndexes: Invalid value: "invalid-format": error parsing succeededIndexes: '
                'cannot convert string to integer for index: "invalid"'
            ],
        ),
    ],
)
def test_a_success_policy_is_checked(rule: dict[str, Any], wanted: list[str]) -> None:
    found = problems(job(successPolicy={"rules": [rule]}, **INDEXED))
    assert found == [f"spec.successPolicy.rules[0]{text}" for text in wanted]


def test_a_success_policy_needs_indexes_and_rules() -> None:
    (text,) = problems(job(successPolicy={"rules": [{"succeededCount": 1}]}))
    assert text.startswith("spec.successPolicy: Invalid value: ")
    assert text.endswith("requires indexed completion mode")
    wanted = "at least one rules must be specified when the successPolicy is specified"
    assert problems(job(successPolicy={"rules": []}, **INDEXED)) == [
        f"spec.successPolicy.rules: Required value: {wanted}"
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", 0),
        ("0,2-4", 4),
        ("1-1", "non-increasing order, previous: 1, current: 1"),
        ("3,2", "non-increasing order, previous: 3, current: 2"),
        ("7", 'too large index: "7"'),
        ("1-2-3", 'the fragment "1-2-3" violates the requirement that an index interval can have'),
        ("1,", 'cannot convert string to integer for index: ""'),
    ],
)
def test_indexes_are_counted(text: str, wanted: int | str) -> None:
    if isinstance(wanted, int):
        assert count_indexes(text, 5) == wanted
        return
    with pytest.raises(BadIndexes, match=r".") as refused:
        count_indexes(text, 5)
    assert str(refused.value).startswith(wanted)


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"backoffLimitPerIndex": 1, "maxFailedIndexes": 2, **INDEXED}, []),
        (
            {"backoffLimitPerIndex": 1},
            ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
        ),
        (
            {"maxFailedIndexes": 1, **INDEXED},
            ["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"],
        ),
        (
            {"backoffLimitPerIndex": 1, "maxFailedIndexes": 6, **INDEXED},
            ["spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions"],
        ),
        (
            {**INDEXED, "parallelism": 100_001},
            [
                "spec.parallelism: Invalid value: 100001: "
                "must be less than or equal to 100000 when completion mode is Indexed"
            ],
        ),
        (
            {**INDEXED, "completions": 100_001, "backoffLimitPerIndex": 1},
            ["spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"],
        ),
    ],
)
def test_limits_of_indexes_are_checked(spec: dict[str, Any], wanted: list[str]) -> None:
    assert problems(job(**spec)) == wanted


@pytest.mark.parametrize(
    ("manager", "wanted"),
    [
        ("example.com/foo", ""),
        ("foo", 'Invalid value: "foo": must be a domain-prefixed path (such as "acme.io/foo")'),
        ("A.com/foo", 'Invalid value: "A.com": a lowercase RFC 1123 subdomain'),
        ("example.com/" + "x" * 60, "Too long: may not be more than 63 bytes"),
    ],
)
def test_who_manages_a_job_is_a_path_of_a_domain(manager: str, wanted: str) -> None:
    found = problems(job(managedBy=manager))
    assert (found[0].removeprefix("spec.managedBy: ")[: len(wanted)] if found else "") == wanted


@pytest.mark.parametrize(
    ("attribute", "value", "path"),
    [
        ("pod_failure_policy", PodFailurePolicy(), "podFailurePolicy"),
        ("backoff_limit_per_index", 2, "backoffLimitPerIndex"),
        ("managed_by", "example.com/foo", "managedBy"),
        ("success_policy", SuccessPolicy(rules=(SuccessPolicyRule(succeeded_count=1),)), "successPolicy"),
    ],
)
def test_how_a_job_judges_its_pods_does_not_change(attribute: str, value: Any, path: str) -> None:
    old = stored(job(**INDEXED))
    new = replace(old, spec=replace(old.spec, **{attribute: value, "pod_replacement_policy": "Failed"}))
    found = texts(updated(definition_of("jobs").strategy, new, old, context())[1])
    assert [text for text in found if text.endswith("field is immutable")] != []
    assert all(text.startswith(f"spec.{path}: Invalid value: ") for text in found)


def test_an_index_of_thousands_of_digits_is_no_number() -> None:
    with pytest.raises(BadIndexes, match="cannot convert string to integer"):
        count_indexes("9" * 5000, 5)


def test_a_policy_is_about_conditions_that_are_true() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    made = stored(job(podFailurePolicy={"rules": [rule]}))
    assert made.spec.pod_failure_policy is not None
    assert made.spec.pod_failure_policy.rules[0].on_pod_conditions[0].status == "True"


def test_errors_of_a_changed_spec_are_reported_as_those_of_a_new_and_of_a_changed_job() -> None:
    """Kubernetes validates the spec twice on updates (jobStrategy.ValidateUpdate)."""
    old = stored(job(parallelism=1))
    new = replace(old, spec=replace(old.spec, parallelism=-1))
    wrong = "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"
    assert texts(updated(definition_of("jobs").strategy, new, old, context())[1]) == [wrong, wrong]
