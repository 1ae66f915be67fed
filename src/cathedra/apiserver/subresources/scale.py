"""Scale: the number of replicas of any workload, in one form (docs/spec/apimachinery.md §12)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.autoscaling_v1 import Scale, ScaleSpec, ScaleStatus
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.field import ErrorList
from cathedra.api.jsonvalue import JSONObject, JSONValue
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.selectors import from_label_selector
from cathedra.api.status import bad_request, invalid
from cathedra.api.struct import replace
from cathedra.apiserver.custom.columns import parse_fields
from cathedra.apiserver.custom.objects import CustomObject, content, with_content
from cathedra.apiserver.ownership.applying import apply_conflict
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.managers import Conflict, Manager, held_fields
from cathedra.apiserver.ownership.tracking import tracked
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.update import change

SCALE: Final = GroupVersionKind("autoscaling", "v1", "Scale")
_REPLICAS: Final = FieldSet.from_json({"f:spec": {"f:replicas": {}}})


def scale_of(obj: Any) -> Scale:
    """Return the scale of a workload, or of a custom resource whose definition has the paths of its numbers."""
    metadata: ObjectMeta = obj.metadata
    if isinstance(obj, CustomObject):
        return _scale(metadata, *custom_numbers(obj))
    selector = obj.spec.selector
    if isinstance(selector, LabelSelector):
        text = str(from_label_selector(selector))
    else:
        text = ",".join(f"{key}={value}" for key, value in sorted((selector or {}).items()))
    return _scale(metadata, obj.spec.replicas or 0, obj.status.replicas, text)


def _scale(metadata: ObjectMeta, wanted: int, present: int, selector: str) -> Scale:
    return Scale(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            creation_timestamp=metadata.creation_timestamp,
        ),
        spec=ScaleSpec(replicas=wanted),
        status=ScaleStatus(replicas=present, selector=selector),
    )


async def set_scale(server: ServerContext, call: Call, make: Any, *, applies: bool = False) -> Scale:
    """Change the replicas of a workload to those of the scale that ``make`` returns for the present one.

    ``applies``: the scale is applied. Then the replicas may belong to another manager, unless the call forces it.

    Raises:
        StatusError: 400, it has another name; 422, the number is negative; 409, the resource version is an old one, or
            an applied number belongs to another manager.
    """
    main = call.but(subresource="")

    def scaled(entry: StoredObject) -> Any:
        wanted: Scale = make(scale_of(entry.object))
        if wanted.metadata.name not in ("", call.name):
            raise bad_request(
                f"the name of the object ({wanted.metadata.name}) does not match the name on the URL ({call.name})"
            )
        old = entry.object
        if applies and not call.force and scale_of(old).spec.replicas != wanted.spec.replicas:
            _check_owner(call, old)
        if wanted.spec.replicas < 0 and not isinstance(old, CustomObject):
            errors = ErrorList()
            errors.invalid("spec.replicas", wanted.spec.replicas, "must be greater than or equal to 0")
            raise invalid("autoscaling", "Scale", call.name, errors)
        metadata = replace(old.metadata, resource_version=wanted.metadata.resource_version)
        if isinstance(old, CustomObject):
            # Other writes of custom resources need a resource version. Kubernetes changes the scale of the present one.
            known = wanted.metadata.resource_version or old.metadata.resource_version
            metadata = replace(metadata, resource_version=known)
            new = replace(with_replicas(old, wanted.spec.replicas), metadata=metadata)
        else:
            new = replace(old, spec=replace(old.spec, replicas=wanted.spec.replicas), metadata=metadata)
        return tracked(call, old, new, server.clock.now())

    return scale_of((await change(server, main, scaled)).stored.object)


def _check_owner(call: Call, obj: Any) -> None:
    """Raise a conflict if other managers own the number of replicas.

    In the scale the number stands at ``spec.replicas``. A custom resource may have it elsewhere.
    """
    paths = type(obj).scale if isinstance(obj, CustomObject) else None
    steps = ".spec.replicas" if paths is None else paths.spec_replicas
    path = [f"f:{step}" for step in steps.strip(".").split(".")]
    owners: dict[Manager, FieldSet] = {}
    for entry, _ in held_fields(obj.metadata.managed_fields):
        own = entry.manager == call.field_manager and entry.operation == "Apply" and entry.subresource == "scale"
        fields = entry.fields_v1.load() if entry.fields_v1 is not None else {}
        for step in path:
            fields = fields.get(step) if isinstance(fields, dict) else None
        if fields is not None and not own:
            manager = Manager(entry.manager, entry.operation, SCALE.api_version, entry.subresource)
            owners[manager] = _REPLICAS
    if owners:
        raise apply_conflict(Conflict(owners))


# --- custom resources -----------------------------------------------------------------------------------------------


def custom_numbers(obj: CustomObject) -> tuple[int, int, str]:
    """Return replicas wanted, replicas present, and the selector of the pods."""
    paths = type(obj).scale
    if paths is None:
        return 0, 0, ""
    values = content(obj)
    wanted, present = (parse_fields(path).one(values) for path in (paths.spec_replicas, paths.status_replicas))
    selector = parse_fields(paths.selector).one(values) if paths.selector else ""
    return _number(wanted), _number(present), selector if isinstance(selector, str) else ""


def with_replicas(obj: CustomObject, replicas: int) -> CustomObject:
    """Return the object with another number of replicas wanted."""
    paths = type(obj).scale
    assert paths is not None, "a kind without a scale has no such sub-resource"
    steps = paths.spec_replicas.strip(".").split(".")
    return with_content(type(obj), obj.metadata, _set(content(obj), steps, replicas))


def _set(values: JSONObject, steps: list[str], replicas: int) -> JSONObject:
    first, *rest = steps
    inner = values.get(first)
    changed = _set(inner if isinstance(inner, dict) else {}, rest, replicas) if rest else replicas
    return {**values, first: changed}


def _number(value: JSONValue) -> int:
    return value if isinstance(value, int) else 0
