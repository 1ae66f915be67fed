"""Which checks a level has in which version."""

from __future__ import annotations

import pytest

from cathedra.apiserver.admission.podsecurity.evaluation import in_short, violations
from cathedra.apiserver.admission.podsecurity.standards import LevelVersion
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
