"""In which form the client wants its answer (spec: apimachinery.md, section 1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from cathedra.api.status import failure

__all__ = ["JSON_FORM", "Form", "negotiate"]

JSON_TYPE: Final = "application/json"
YAML_TYPE: Final = "application/yaml"
PROTOBUF_TYPE: Final = "application/vnd.kubernetes.protobuf"
_TRANSFORMS: Final = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}


@dataclass(frozen=True, slots=True)
class Form:
    """Media type, and what the objects shall be turned into (``Table``, ``PartialObjectMetadata`` or nothing)."""

    media_type: str = JSON_TYPE
    transform: str = ""
    version: str = "v1"
    """Of meta.k8s.io, for transformed objects."""


JSON_FORM: Final = Form()


@dataclass(frozen=True, slots=True)
class _Clause:
    media_type: str
    parameters: dict[str, str]
    quality: float
    position: int


@lru_cache(maxsize=512)
def negotiate(accept: str, *, transforms: bool = True, protobuf: bool = True, streaming: bool = False) -> Form:
    """The best form that the ``Accept`` header allows.

    Raises:
        StatusError: 406, nothing that can be served is acceptable.
    """
    if not accept:
        return JSON_FORM
    offered = (JSON_TYPE, YAML_TYPE, PROTOBUF_TYPE) if protobuf else (JSON_TYPE, YAML_TYPE)
    if streaming:
        offered = tuple(kind for kind in offered if kind != YAML_TYPE)
    for clause in _clauses(accept):
        media_type = _matched(clause.media_type, offered)
        if media_type is None or clause.quality == 0:
            continue
        wanted = clause.parameters.get("as", "")
        if not wanted:
            return Form(media_type)
        group, version = clause.parameters.get("g", ""), clause.parameters.get("v", "")
        if transforms and wanted in _TRANSFORMS and group == "meta.k8s.io" and version in {"v1", "v1beta1"}:
            return Form(media_type, wanted.removesuffix("List"), version)
    names = [*offered, *(f"{kind};stream=watch" for kind in offered if kind != YAML_TYPE)]
    raise failure(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {', '.join(names)}")


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
    return sorted(clauses, key=lambda clause: (-clause.quality, clause.position))


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def _matched(media_type: str, offered: tuple[str, ...]) -> str | None:
    if media_type == "*/*":
        return offered[0]
    if media_type.endswith("/*"):
        prefix = media_type[:-1]
        return next((kind for kind in offered if kind.startswith(prefix)), None)
    return media_type if media_type in offered else None
