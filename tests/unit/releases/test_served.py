"""API versions of a release."""

from __future__ import annotations

import pytest

from cathedra.releases.served import deprecation_warning, device_versions, documented_device_version, lifetime, versions

GROUP = "resource.k8s.io"


@pytest.mark.parametrize(
    ("release", "expected"),
    [("1.32", ()), ("1.33", ("v1alpha3",)), ("1.36", ("v1beta2", "v1alpha3")), ("1.37", ("v1", "v1beta2", "v1alpha3"))],
)
def test_a_kind_has_the_versions_of_its_release(release: str, expected: tuple[str, ...]) -> None:
    assert versions(release, GROUP, "DeviceTaintRule") == expected


def test_a_version_ends_before_the_release_that_removes_it() -> None:
    assert versions("1.36", "scheduling.k8s.io", "Workload") == ("v1alpha2",)
    assert versions("1.37", "scheduling.k8s.io", "Workload") == ("v1beta1", "v1alpha3")


def test_a_new_version_is_preferred_one_release_after_it_is_served() -> None:
    """A server that is rolled back to the release before must be able to read what is stored."""
    assert device_versions("1.34")[0] == "v1beta2"
    assert device_versions("1.35")[0] == "v1"


def test_a_release_documents_one_version() -> None:
    assert documented_device_version("1.33") == "v1beta1"
    assert documented_device_version("1.37") == "v1"


def test_versions_that_every_release_has_are_not_listed() -> None:
    assert lifetime("apps", "v1", "Deployment") is None


def test_a_deprecated_version_is_warned_about_from_that_release_on() -> None:
    warning = "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"
    assert deprecation_warning("1.34", GROUP, "v1beta1", "ResourceClaim") == ""
    assert deprecation_warning("1.35", GROUP, "v1beta1", "ResourceClaim") == warning


def test_a_warning_names_the_version_to_use_instead() -> None:
    group = "admissionregistration.k8s.io"
    warning = deprecation_warning("1.37", group, "v1beta1", "MutatingAdmissionPolicy")
    assert warning.endswith(f"unavailable in v1.40+; use {group}/v1 MutatingAdmissionPolicy")
