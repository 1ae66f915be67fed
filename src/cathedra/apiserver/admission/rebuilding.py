"""Decoding of the plain values that a webhook or a policy has changed."""

from __future__ import annotations

from typing import Any

from cathedra.api.decoding import decode_values
from cathedra.api.jsonvalue import JSONObject
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.versioned import own_kind
from cathedra.apiserver.custom.objects import CustomObject, decode_custom, is_custom, normalized
from cathedra.clock import Clock
from cathedra.kinds.definition import RequestContext, VersionDefinition
from cathedra.releases import FeatureGates


class Rebuilder:
    """Makes objects from changed values, with their defaults."""

    def __init__(self, gates: FeatureGates, clock: Clock) -> None:
        self._gates = gates
        self._clock = clock

    async def object(
        self, request: AdmissionAttributes, version: VersionDefinition, values: JSONObject
    ) -> tuple[Any, tuple[str, ...]]:
        """Return the request's object from its values in that version, and their unknown fields.

        Raises:
            DecodeError: the values describe no such object.
            StatusError: 500, a webhook could not convert it to the version of the request.
        """
        values = {name: value for name, value in values.items() if name not in {"kind", "apiVersion"}}
        release, definition = self._gates.release, request.definition
        kind = type(request.object)
        if (own := own_kind(kind)) is not None:
            decoded = decode_values(kind, own, values, release)
            return decoded.object, decoded.problems
        gvk = definition.gvk(version.name)
        wanted: Any = version.type
        problems: tuple[str, ...]
        if is_custom(wanted):
            # Unknown fields are dropped without a problem: Kubernetes has no struct to decode them into.
            made, problems = await _as_requested(request, version, decode_custom(wanted, values, release)[0]), ()
        else:
            found = decode_values(wanted, gvk, values, release)
            made, problems = found.object, found.problems
        strategy = definition.subresources.get(request.subresource, definition.strategy)
        context = RequestContext(self._gates, self._clock.now(), gvk.api_version)
        # A patch may have added a container or removed a default, so defaults are set again.
        return strategy.default(version.to_hub(made), context), problems


async def _as_requested(request: AdmissionAttributes, version: VersionDefinition, made: CustomObject) -> CustomObject:
    """Return the object, converted to the version of the request if its definition has a conversion webhook."""
    conversion = request.definition.conversion
    if conversion is None or version.name == request.version.name:
        return made
    shown_in = request.definition.gvk(version.name).api_version
    return normalized(await conversion.between(made, shown_in, request.call.api_version))
