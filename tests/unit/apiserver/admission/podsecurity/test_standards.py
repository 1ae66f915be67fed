"""Levels and versions from a namespace's labels."""

from __future__ import annotations

import pytest

from cathedra.apiserver.admission.podsecurity.standards import LATEST, LevelVersion, Policy, policy_of

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
