"""Negotiation of the form of an answer (docs/spec/apimachinery.md §1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from cathedra.api.core.meta_v1 import StatusDetails
from cathedra.api.status import StatusError, bad_request, failure
from cathedra.remembering import remembered

JSON_TYPE: Final = "application/json"
YAML_TYPE: Final = "application/yaml"
PROTOBUF_TYPE: Final = "application/vnd.kubernetes.protobuf"
FOR_PLAIN_JSON: Final = frozenset({"", "*/*", JSON_TYPE})
"""``Accept`` headers that mean plain JSON, which most requests have."""
ACCEPT_LIMIT: Final = 8 * 1024
"""Limit of an ``Accept`` header in letters; ten times the longest that clients send, and parsed in a millisecond."""
_MANAGERS: Final = "metadata.managedFields"
"""The one field that clients may have dropped."""
_TRANSFORMS: Final = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}


class AnswerForm(msgspec.Struct, frozen=True):
    """The media type, and the kind that objects are turned into (``Table``, ``PartialObjectMetadata`` or none)."""

    media_type: str = JSON_TYPE
    transform: str = ""
    version: str = "v1"
    """The version of meta.k8s.io, for transformed objects."""
    drops_managers: bool = False
    """True if objects are written without ``metadata.managedFields``."""


JSON_FORM: Final = AnswerForm()


class _Clause(msgspec.Struct, frozen=True):
    media_type: str
    parameters: dict[str, str]
    quality: float
    position: int


# A client sends one header for all its requests. Errors are not kept: they are raised, and a refused header costs its
# sender the parsing each time.
@remembered("apiserver.http.answers.negotiation.negotiate", size=512)
def negotiate(
    accept: str,
    *,
    transforms: bool = True,
    streaming: bool = False,
    listing: bool = False,
    protobuf: bool = True,
    drops: bool = False,
) -> AnswerForm:
    """Return the best form that the ``Accept`` header allows. ``listing`` only widens what a refusal offers. Without
    ``protobuf`` that form is not offered: custom resources have none. ``drops`` admits the parameter ``drop``, which is
    ignored otherwise (gate ManagedFieldsOptOut).

    Raises:
        StatusError: 406, nothing that can be served is acceptable.
    """
    if not accept:
        return JSON_FORM
    if len(accept) > ACCEPT_LIMIT:
        raise bad_request(f"the Accept header is longer than {ACCEPT_LIMIT} bytes")
    everything = (JSON_TYPE, YAML_TYPE, PROTOBUF_TYPE) if protobuf else (JSON_TYPE, YAML_TYPE)
    offered = tuple(kind for kind in everything if not streaming or kind != YAML_TYPE)
    known = False
    for clause in _clauses(accept):
        media_type = offered[0] if clause.media_type == "*/*" else clause.media_type
        # Two texts of refusal: for a type that exists but cannot be streamed or transformed, and for one that is
        # unknown.
        known = known or (media_type in everything and media_type not in offered)
        if media_type not in offered or clause.quality == 0:
            continue
        wanted = clause.parameters.get("as", "")
        without = drops and clause.parameters.get("drop") == _MANAGERS
        if not wanted:
            return AnswerForm(media_type, drops_managers=without)
        known = True
        group, version = clause.parameters.get("g", ""), clause.parameters.get("v", "")
        if transforms and wanted in _TRANSFORMS and group == "meta.k8s.io" and version in {"v1", "v1beta1"}:
            return AnswerForm(media_type, wanted, version, without)
    raise (
        _unsuitable(offered, streaming=streaming)
        if known
        else _not_acceptable(everything, streams=listing or streaming)
    )


def _unsuitable(offered: Sequence[str], *, streaming: bool) -> StatusError:
    """Return the refusal of a type that exists and cannot be streamed or transformed."""
    names = [f"{kind};stream=watch" for kind in offered] if streaming else list(offered)
    return failure(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(names)}")


def _not_acceptable(everything: Sequence[str], *, streams: bool) -> StatusError:
    """Return the refusal of unknown media types, with those that are served."""
    streamed = (f"{kind};stream=watch" for kind in everything if streams and kind != YAML_TYPE)
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join([*everything, *streamed])}"
    return failure(406, "NotAcceptable", message, StatusDetails())


def fit_for_object(form: AnswerForm, go_type: str) -> AnswerForm:
    """Return the form for a single object.

    Raises:
        StatusError: 406, the client wants a list.
    """
    if form.transform == "PartialObjectMetadataList":
        raise failure(
            406,
            "NotAcceptable",
            f"you requested PartialObjectMetadataList, but the requested object is not a list (*{go_type})",
        )
    return form


def fit_for_list(form: AnswerForm, go_type: str) -> AnswerForm:
    """Return the form for a list.

    Raises:
        StatusError: 406, the client wants a single object.
    """
    if form.transform == "PartialObjectMetadata":
        raise failure(
            406,
            "NotAcceptable",
            f"you requested PartialObjectMetadata, but the requested object is a list (*{go_type}List)",
        )
    return form


def _clauses(accept: str) -> list[_Clause]:
    clauses = []
    for position, text in enumerate(accept.split(",")):
        media_type, *rest = (part.strip() for part in text.split(";"))
        if not media_type:
            continue
        parameters = {}
        for part in rest:
            key, _, value = part.partition("=")
            parameters[key.strip()] = value.strip().strip('"')
        clauses.append(_Clause(media_type, parameters, _quality(parameters.pop("q", "1")), position))
    # Of equal quality the first one wins: kubectl lists Table before plain JSON and relies on that.
    return sorted(clauses, key=lambda clause: (-clause.quality, clause.position))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        # Kubernetes' parser (goautoneg) treats an unreadable quality as 1 instead of refusing the header.
        return 1.0
