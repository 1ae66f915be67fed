"""The checks of each level and version."""

from __future__ import annotations

import pytest

from cathedra.apiserver.admission.podsecurity.enforcement import (
    LATEST,
    LevelVersion,
    Policy,
    in_short,
    policy_of,
    violations,
)
from tests.unit.apiserver.admission.podsecurity.pods import container, pod, refusal

BARE = pod({"name": "a", "image": "i"})


def test_a_hardened_pod_is_taken_by_all_and_privileged_takes_all() -> None:
    assert refusal(pod()) == ""
    assert refusal(pod(container("a", {"privileged": True})), "privileged") == ""


def test_a_plain_pod_is_good_enough_for_baseline_but_not_for_restricted() -> None:
    assert refusal(BARE, "baseline") == ""
    assert refusal(BARE) == (
        'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
        '"Localhost")'
    )


def test_a_check_of_restricted_stands_in_for_one_of_baseline() -> None:
    made = pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}], hostNetwork=True)
    found = violations(LevelVersion("restricted"), 37, made.metadata, made.spec)
    assert in_short(found) == "host namespaces, restricted volume types"
    assert "hostPath volumes" in refusal(made, "baseline")


@pytest.mark.parametrize(("minor", "refused"), [(33, False), (34, True), (99, True)])
def test_a_version_has_the_checks_of_its_time(minor: int, refused: bool) -> None:
    made = pod(container(livenessProbe={"tcpSocket": {"host": "h", "port": 1}}))
    assert bool(refusal(made, "baseline", minor)) is refused


def test_an_older_server_asks_for_what_it_knows() -> None:
    made = pod(container(livenessProbe={"tcpSocket": {"host": "h", "port": 1}}))
    assert violations(LevelVersion("baseline"), 33, made.metadata, made.spec) == []


@pytest.mark.parametrize(("minor", "refused"), [(0, True), (35, False)])
def test_a_user_namespace_relaxes_restricted_from_1_35(minor: int, refused: bool) -> None:
    context = {"runAsNonRoot": False, "runAsUser": 0, "allowPrivilegeEscalation": False}
    made = pod(container("a", context), hostUsers=False)
    assert ("runAsNonRoot" in refusal(made, "restricted", minor)) is refused


PREFIX = "pod-security.kubernetes.io/"


def asked(**labels: str) -> tuple[str, str, str]:
    """Enforce, audit and warn as they are shown."""
    policy, _ = policy_of({f"{PREFIX}{name.replace('_', '-')}": value for name, value in labels.items()})
    return str(policy.enforce), str(policy.audit), str(policy.warn)


def test_without_labels_everything_is_let_in() -> None:
    policy, errors = policy_of({"a": "b"})
    assert policy == Policy()
    assert policy.is_privileged
    assert errors == []


def test_each_mode_has_a_level_and_a_version() -> None:
    assert asked(enforce="baseline", audit="restricted", warn="privileged", audit_version="v1.24") == (
        "baseline:latest",
        "restricted:v1.24",
        "privileged:latest",
    )


def test_what_is_enforced_is_warned_of_unless_the_labels_say_otherwise() -> None:
    assert asked(enforce="restricted", enforce_version="v1.30")[2] == "restricted:v1.30"
    assert asked(enforce="restricted", warn_version="v1.20")[2] == "restricted:v1.20"
    assert asked(enforce="restricted", warn="baseline")[2] == "baseline:latest"
    assert asked(enforce="privileged")[2] == "privileged:latest"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("enforce", "strict", "must be one of privileged, baseline, restricted"),
        ("warn-version", "1.2", 'must be "latest" or "v1.x"'),
        ("audit-version", "v1.02", 'must be "latest" or "v1.x"'),
    ],
)
def test_labels_that_make_no_sense_are_errors(name: str, value: str, text: str) -> None:
    _, errors = policy_of({f"{PREFIX}{name}": value})
    assert [str(error) for error in errors] == [f'metadata.labels[{PREFIX}{name}]: Invalid value: "{value}": {text}']


def test_where_the_level_makes_no_sense_enforcement_is_strict_and_the_others_are_silent() -> None:
    assert asked(enforce="x", audit="x", warn="x") == ("restricted:latest", "privileged:latest", "privileged:latest")


def test_levels_are_ordered() -> None:
    privileged, baseline, restricted = (LevelVersion(one, LATEST) for one in ("privileged", "baseline", "restricted"))
    assert restricted.is_stricter(baseline)
    assert baseline.is_stricter(privileged)
    assert not baseline.is_stricter(baseline)
