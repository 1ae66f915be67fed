"""Definitions of custom resources."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import apiextensions_v1
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import GENERIC_COLUMNS, generic_cells
from cathedra.kinds.definition import ResourceDefinition
from cathedra.kinds.deletion import DeletionRules

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
"""Held until the instances are gone."""


def crd_cells(definition: apiextensions_v1.CustomResourceDefinition, now: float) -> list[Any]:
    """Return the cells of a CustomResourceDefinition."""
    return generic_cells(definition, now)


class CustomResourceDefinitionDeletion(DeletionRules[apiextensions_v1.CustomResourceDefinition]):
    """Instances go before their definition."""

    finalizers = (CLEANUP_FINALIZER,)


def custom_resource_definition() -> ResourceDefinition[apiextensions_v1.CustomResourceDefinition]:
    """Return the definition of customresourcedefinitions."""
    return BuiltinKind(
        apiextensions_v1.CustomResourceDefinition,
        "customresourcedefinitions",
        namespaced=False,
        counts_generation=True,
        deletion=CustomResourceDefinitionDeletion(),
        table=(GENERIC_COLUMNS, crd_cells),
        short_names=("crd", "crds"),
        categories=("api-extensions",),
    ).definition()
