"""Writes as admission plugins see them, without a server."""

from __future__ import annotations

from typing import Any

from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.request import Call
from tests.unit.kinds.objects import definition_of

__all__ = ["write"]


def write(
    plural: str, operation: str = "CREATE", new: Any = None, old: Any = None, *, version: str = "", **call: Any
) -> AdmissionAttributes:
    """Return a write by «ada» of a resource, in ``version`` or the preferred version."""
    definition = definition_of(plural)
    served = definition.version(version) if version else definition.versions[0]
    made = Call.on(definition, served, user=UserInfo("ada", ("g",)), verb=operation.lower())
    return AdmissionAttributes(made.but(**call), operation, new, old)
