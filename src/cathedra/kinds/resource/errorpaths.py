"""Error paths of older releases (docs/spec/api.md §3.1, appendix D).

Validation runs on the form of v1 and writes the paths of the newest releases. Until 1.34 a repeated element was
reported at its key field, and until 1.32 the form inside was that of v1beta1: flat requests, and devices wrapped in
``basic``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from cathedra.api.field import ErrorList, ErrorType, FieldError
from cathedra.releases import FeatureGates, behaviours

_KEY_FIELDS: Final = (
    (re.compile(r"(devices\.requests|firstAvailable|sharedCounters|spec\.devices)\[\d+\]$"), "name"),
    (re.compile(r"reservedFor\[\d+\]$"), "uid"),
    (re.compile(r"consumesCounters\[\d+\]$"), "counterSet"),
    (re.compile(r"status\.devices\[\d+\]$"), "deviceID"),
)
_EXACTLY: Final = re.compile(r"(requests\[\d+\])\.exactly")
_REQUEST_ITSELF: Final = re.compile(r"requests\[\d+\]$")
_DEVICE: Final = re.compile(r"(spec\.devices\[\d+\])\.(?!name\b|basic\b)")


def paths_of_release(errors: ErrorList, gates: FeatureGates) -> ErrorList:
    """Return the errors with the paths of the release."""
    if not errors or gates.has(behaviours.ERRORS_AT_INDEX):
        return errors
    renamed = [_at_key_field(error) for error in errors]
    return ErrorList(renamed if gates.has(behaviours.ERRORS_IN_V1_FORM) else [_in_own_form(error) for error in renamed])


def _at_key_field(error: FieldError) -> FieldError:
    if error.type is not ErrorType.DUPLICATE:
        return error
    for pattern, name in _KEY_FIELDS:
        if pattern.search(error.field):
            return replace(error, field=f"{error.field}.{name}")
    return error


def _in_own_form(error: FieldError) -> FieldError:
    if error.type is ErrorType.REQUIRED and _REQUEST_ITSELF.search(error.field):
        # A request without fields can only lack this one.
        return replace(error, field=f"{error.field}.deviceClassName", detail="")
    field = _EXACTLY.sub(r"\1", error.field)
    return replace(error, field=_DEVICE.sub(r"\1.basic.", field))
