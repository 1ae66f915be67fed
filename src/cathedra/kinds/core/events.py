"""Events, in the core group and in events.k8s.io (docs/spec/apimachinery.md §18)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cathedra.api.core import core_v1, events_v1
from cathedra.api.field import ErrorList
from cathedra.api.formats import dns_subdomain, path_segment, qualified_name
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import Time, reshape
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import age
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition, Strategy, VersionDefinition

EVENT_FIELDS: Final[Mapping[str, Callable[[core_v1.Event], str]]] = {
    "involvedObject.kind": lambda event: event.involved_object.kind,
    "involvedObject.namespace": lambda event: event.involved_object.namespace,
    "involvedObject.name": lambda event: event.involved_object.name,
    "involvedObject.uid": lambda event: event.involved_object.uid,
    "involvedObject.apiVersion": lambda event: event.involved_object.api_version,
    "involvedObject.resourceVersion": lambda event: event.involved_object.resource_version,
    "involvedObject.fieldPath": lambda event: event.involved_object.field_path,
    "reason": lambda event: event.reason,
    "reportingComponent": lambda event: event.reporting_component,
    "source": lambda event: event.source.component or event.reporting_component,
    "type": lambda event: event.type,
}
EVENT_COLUMNS: Final = (
    Column("Last Seen", description="How long ago it happened last."),
    Column("Type", description="Normal or Warning."),
    Column("Reason", description="What happened, in a word."),
    Column("Object", description="What it happened to."),
    Column("Subobject", priority=1, description="The part of the object."),
    Column("Source", priority=1, description="Who reports it."),
    Column("Message", description="What happened, in a sentence."),
    Column("First Seen", priority=1, description="How long ago it happened first."),
    Column("Count", priority=1, description="How often it happened."),
    Column("Name", format="name", priority=1, description="Name of the event object."),
)
_STRICT: Final = "events.k8s.io/v1"
_LONGEST: Final = 128
_LONGEST_NOTE: Final = 1024
_SHORTEST_SERIES: Final = 2
_FIXED: Final = (
    ("involved_object", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("first_timestamp", "firstTimestamp"),
    ("last_timestamp", "lastTimestamp"),
    ("count", "count"),
    ("reason", "reason"),  # Kubernetes reports it twice.
    ("type", "type"),
    ("event_time", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reporting_component", "reportingController"),
    ("reporting_instance", "reportingInstance"),
)


class EventStrategy(Strategy[core_v1.Event]):
    """Events have nothing that is kept apart."""

    allow_create_on_update = True
    returns_deleted_object = False

    def validate_create(self, obj: core_v1.Event, context: RequestContext) -> ErrorList:
        """Return the errors of an event; the group events.k8s.io is stricter than the core group."""
        errors = _errors(obj)
        if context.api_version != _STRICT:
            return errors
        for problem in dns_subdomain(obj.metadata.name):
            errors.invalid("metadata.name", obj.metadata.name, problem)
        _check_series(errors, obj)
        if obj.event_time is None:
            errors.required("eventTime")
        if obj.type not in ("Normal", "Warning"):
            errors.invalid("type", "", f"has invalid value: {obj.type}")
        for name, given in (
            ("firstTimestamp", obj.first_timestamp),
            ("lastTimestamp", obj.last_timestamp),
            ("count", obj.count),
            ("source", obj.source.component or obj.source.host),
        ):
            if given:
                errors.invalid(name, "", "needs to be unset")
        return errors

    def validate_update(self, new: core_v1.Event, old: core_v1.Event, context: RequestContext) -> ErrorList:
        """Return the errors of a changed event; in the group events.k8s.io only its series may change."""
        errors = _errors(new)
        if context.api_version != _STRICT:
            return errors
        if new.series != old.series:
            _check_series(errors, new)
        for attribute, name in _FIXED:
            given = getattr(new, attribute)
            if given != getattr(old, attribute):
                errors.invalid(name, given, "field is immutable")
        return errors


def _errors(event: core_v1.Event) -> ErrorList:
    """Return the errors of an event of either group. One with ``eventTime`` is of the newer form."""
    errors = ErrorList()
    about, own = event.involved_object.namespace, event.metadata.namespace
    if event.event_time is None:
        matches = about == own or (not about and own == "default")
    else:
        matches = bool(about) or own in ("default", "kube-system")
    if not matches:
        errors.invalid("involvedObject.namespace", about, "does not match event.namespace")
    if event.event_time is None:
        return errors
    controller = event.reporting_component
    if not controller:
        errors.required("reportingController")
    for problem in qualified_name(controller):
        errors.invalid("reportingController", controller, problem)
    for name, text in (
        ("reportingInstance", event.reporting_instance),
        ("action", event.action),
        ("reason", event.reason),
    ):
        if not text:
            errors.required(name)
        if len(text.encode()) > _LONGEST:
            errors.invalid(name, "", f"can have at most {_LONGEST} characters")
    if len(event.message.encode()) > _LONGEST_NOTE:
        errors.invalid("message", "", f"can have at most {_LONGEST_NOTE} characters")
    return errors


def _check_series(errors: ErrorList, event: core_v1.Event) -> None:
    series = event.series
    if series is None:
        return
    if series.count < _SHORTEST_SERIES:
        errors.invalid("series.count", "", f"should be at least {_SHORTEST_SERIES}")
    if series.last_observed_time is None:
        errors.required("series.lastObservedTime")


def event_definition() -> ResourceDefinition[core_v1.Event]:
    """Return the definition of events."""
    return BuiltinKind(
        core_v1.Event,
        "events",
        namespaced=True,
        strategy=EventStrategy(),
        table=(EVENT_COLUMNS, event_cells),
        short_names=("ev",),
        field_selectors=EVENT_FIELDS,
        name_rule=path_segment,
    ).definition()


def events_definition() -> ResourceDefinition[core_v1.Event]:
    """Return the same events in the group events.k8s.io, with its names for their fields (docs/spec/apimachinery.md
    §18)."""
    return ResourceDefinition(
        group="events.k8s.io",
        kind="Event",
        plural="events",
        singular="event",
        namespaced=True,
        type=core_v1.Event,
        versions=(VersionDefinition("v1", events_v1.Event, event_to_core, event_from_core),),
        strategy=EventStrategy(),
        short_names=("ev",),
        columns=EVENT_COLUMNS,
        cells=event_cells,
        field_selectors=EVENT_FIELDS,
        name_rule=path_segment,
        stored_as=GroupResource("", "events"),
    )


def event_to_core(event: events_v1.Event) -> core_v1.Event:
    """Return a new-style event in the form in which it is kept."""
    series = event.series
    return core_v1.Event(
        metadata=event.metadata,
        involved_object=event.regarding,
        related=event.related,
        message=event.note,
        source=event.deprecated_source,
        first_timestamp=event.deprecated_first_timestamp,
        last_timestamp=event.deprecated_last_timestamp,
        count=event.deprecated_count,
        event_time=event.event_time,
        series=reshape(series, core_v1.EventSeries) if series is not None else None,
        action=event.action,
        reason=event.reason,
        type=event.type,
        reporting_component=event.reporting_controller,
        reporting_instance=event.reporting_instance,
    )


def event_from_core(event: core_v1.Event) -> events_v1.Event:
    """Return an event as the group events.k8s.io shows it."""
    series = event.series
    return events_v1.Event(
        metadata=event.metadata,
        regarding=event.involved_object,
        related=event.related,
        note=event.message,
        deprecated_source=event.source,
        deprecated_first_timestamp=event.first_timestamp,
        deprecated_last_timestamp=event.last_timestamp,
        deprecated_count=event.count,
        event_time=event.event_time,
        series=reshape(series, events_v1.EventSeries) if series is not None else None,
        action=event.action,
        reason=event.reason,
        type=event.type,
        reporting_controller=event.reporting_component,
        reporting_instance=event.reporting_instance,
    )


def event_cells(event: core_v1.Event, now: float) -> list[Any]:
    """Return the cells of an Event."""
    first: Time | None = event.first_timestamp or event.event_time
    last: Time | None = event.last_timestamp or first
    count = event.count
    if event.series is not None:
        last = event.series.last_observed_time or last
        count = event.series.count
    target = event.involved_object
    return [
        age(last, now),
        event.type,
        event.reason,
        f"{target.kind.lower()}/{target.name}" if target.name else target.kind.lower(),
        target.field_path,
        _source(event),
        event.message.strip(),
        age(first, now),
        max(count, 1),
        event.metadata.name,
    ]


def _source(event: core_v1.Event) -> str:
    component = event.source.component or event.reporting_component
    host = event.source.host or event.reporting_instance
    return f"{component}, {host}" if host else component
