"""One AdmissionReview judged: do the parameters for this driver decode, with the models with which it prepares?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from cathedra.api.struct import decode
from cathedra.driver.errors import ConfigError
from cathedra.driver.parameters import ConfigModels, decode_parameters

__all__ = ["RESOURCES", "BadReview", "judge"]

RESOURCES: Final = {"resourceclaims": "spec", "resourceclaimtemplates": "spec.spec"}
"""Resources with opaque parameters, and where their claim's spec is."""
_API_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"
_INVALID: Final = 422


class BadReview(ValueError):
    """The body is no AdmissionReview about claims; the text says why."""


class _Opaque(msgspec.Struct):
    driver: str = ""
    parameters: Any = None


class _Config(msgspec.Struct):
    opaque: _Opaque | None = None


class _Devices(msgspec.Struct):
    config: list[_Config] | None = None


class _Spec(msgspec.Struct):
    devices: _Devices = msgspec.field(default_factory=_Devices)
    spec: _Spec | None = None


class _Object(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Resource(msgspec.Struct):
    resource: str = ""


class _Request(msgspec.Struct):
    uid: str
    resource: _Resource
    object: _Object | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


def judge(body: bytes, driver: str, models: ConfigModels) -> dict[str, Any]:
    """The answer to an AdmissionReview: refused if any parameters for ``driver`` are not what ``models`` take.

    The versions of resource.k8s.io have the parameters in the same place, so each is judged as it came.

    Raises:
        BadReview: the body is something else.
    """
    try:
        review = decode(_Review, body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadReview(f"the body is no {_KIND}: {error}") from error
    if (review.api_version, review.kind) != (_API_VERSION, _KIND):
        raise BadReview(f"{_API_VERSION} {_KIND} is expected, found {review.api_version} {review.kind}")
    if review.request.resource.resource not in RESOURCES:
        raise BadReview(f"{review.request.resource.resource} have no parameters of devices")
    faults = list(_faults(review.request, driver, models))
    response: dict[str, Any] = {"uid": review.request.uid, "allowed": not faults}
    if faults:
        message = f"{len(faults)} configs failed to validate: {'; '.join(faults)}"
        response["status"] = {"message": message, "reason": "Invalid", "code": _INVALID}
    return {"apiVersion": _API_VERSION, "kind": _KIND, "response": response}


def _faults(request: _Request, driver: str, models: ConfigModels) -> Iterator[str]:
    if request.object is None:
        return
    spec = request.object.spec
    place = RESOURCES[request.resource.resource]
    if place == "spec.spec":
        spec = spec.spec or _Spec()
    for i, config in enumerate(spec.devices.config or ()):
        if config.opaque is None or config.opaque.driver != driver:
            continue
        where = f"{place}.devices.config[{i}].opaque.parameters"
        if not isinstance(config.opaque.parameters, Mapping):
            yield f"{where}: a JSON object is expected, found {config.opaque.parameters!r}"
            continue
        try:
            decode_parameters(config.opaque.parameters, models, where)
        except ConfigError as error:
            yield str(error)
