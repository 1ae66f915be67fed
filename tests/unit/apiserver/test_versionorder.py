"""The order of versions in discovery."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.apiserver.versionorder import version_order

DOCUMENTED = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
"""Kubernetes' documentation of versions in CustomResourceDefinitions gives this order."""


@given(st.permutations(DOCUMENTED))
def test_stable_versions_come_first_then_beta_then_alpha_then_other_names(shuffled: list[str]) -> None:
    assert sorted(shuffled, key=version_order) == DOCUMENTED
