"""Versions of resource.k8s.io by release."""

from __future__ import annotations

import pytest

from tests.unit.kinds.objects import definition_of


@pytest.mark.parametrize(
    ("release", "version", "warning"),
    [
        ("1.34", "v1beta1", ""),
        ("1.35", "v1beta1", "resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in v1.38+"),
        ("1.35", "v1beta2", ""),
        ("1.36", "v1beta2", "resource.k8s.io/v1beta2 ResourceSlice is deprecated in v1.36+, unavailable in v1.39+"),
        ("1.37", "v1", ""),
    ],
)
def test_a_version_is_deprecated_from_a_release_on(release: str, version: str, warning: str) -> None:
    assert definition_of("resourceslices", release).version(version).deprecation_warning == warning


def test_the_stable_version_is_preferred_from_135_on() -> None:
    assert definition_of("resourceclaims", "1.34").versions[0].name == "v1beta2"
    assert definition_of("resourceclaims", "1.35").versions[0].name == "v1"


@pytest.mark.parametrize(
    ("release", "versions"),
    [("1.32", ["v1beta1", "v1alpha3"]), ("1.33", ["v1beta1", "v1beta2", "v1alpha3"])],
)
def test_no_version_was_served_by_default_before_134(release: str, versions: list[str]) -> None:
    known = definition_of("resourceclaims", release).versions
    assert [version.name for version in known] == versions
    assert not any(version.served_by_default for version in known)


def test_an_unknown_version_is_an_error() -> None:
    with pytest.raises(KeyError, match="ResourceClaim has no version 'v2'"):
        definition_of("resourceclaims").version("v2")
