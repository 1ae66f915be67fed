"""Message classes of Google's protobuf runtime, made from the same facts by another way: from the Go types alone.

A second reading of the facts, and a second implementation of the wire format, to hold our codec against.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from cathedra.api import facts
from cathedra.releases import NEWEST
from cathedra.releases.fields import is_known

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _FIELD.TYPE_STRING,
    "types.UID": _FIELD.TYPE_STRING,
    "types.NodeName": _FIELD.TYPE_STRING,
    "bool": _FIELD.TYPE_BOOL,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "float64": _FIELD.TYPE_DOUBLE,
    "[]byte": _FIELD.TYPE_BYTES,
}
_BY_HAND = {
    "Timestamp": (("seconds", _FIELD.TYPE_INT64), ("nanos", _FIELD.TYPE_INT32)),
    "Quantity": (("string", _FIELD.TYPE_STRING),),
    "IntOrString": (("type", _FIELD.TYPE_INT64), ("intVal", _FIELD.TYPE_INT32), ("strVal", _FIELD.TYPE_STRING)),
    "Raw": (("raw", _FIELD.TYPE_BYTES),),
    "Empty": (),
}
_SPECIAL = {
    "Time": "Timestamp",
    "MicroTime": "Timestamp",
    "Quantity": "Quantity",
    "IntOrString": "IntOrString",
    "RawExtension": "Raw",
    "Object": "Raw",
    "FieldsV1": "Raw",
    "JSON": "Raw",
    "CustomResourceSubresourceStatus": "Empty",
}
_ONE_OF_SEVERAL = {
    "JSONSchemaPropsOrArray": ("*JSONSchemaProps", "[]JSONSchemaProps"),
    "JSONSchemaPropsOrBool": ("bool", "*JSONSchemaProps"),
    "JSONSchemaPropsOrStringArray": ("*JSONSchemaProps", "[]string"),
}
_QUALIFIERS = {
    "apiv1": ("core/v1",),
    "authenticationv1": ("authentication/v1",),
    "authorizationv1": ("authorization/v1",),
    "batchv1": ("batch/v1",),
    "corev1": ("core/v1",),
    "metav1": ("meta/v1",),
    "schedulingv1alpha3": ("scheduling/v1alpha3",),
    "v1": ("meta/v1", "authentication/v1", "core/v1", "coordination/v1"),
}


NEWEST_OF = {"resource/v1alpha1": "1.26", "resource/v1alpha2": "1.30"}
"""Package → the newest release that has it, where that is not the newest of all."""


class Descriptors:
    """Return one file of descriptors with every requested type and its parts."""

    def __init__(self) -> None:
        self._file = descriptor_pb2.FileDescriptorProto(name="kubernetes.proto", package="k", syntax="proto2")
        self._made: set[str] = set()
        for name, fields in _BY_HAND.items():
            message = self._file.message_type.add(name=name)
            for number, (field, kind) in enumerate(fields, 1):
                message.field.add(name=field, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL)
        self._pool: descriptor_pool.DescriptorPool | None = None

    def add(self, package: str, name: str) -> None:
        """Describe a kind."""
        self._message(package, name)

    def message(self, package: str, name: str) -> Any:
        """The class of a kind that was added; no more can be added afterwards."""
        if self._pool is None:
            self._pool = descriptor_pool.DescriptorPool()
            self._pool.AddSerializedFile(self._file.SerializeToString())
        found = self._pool.FindMessageTypeByName(f"k.{_identifier(package, name)}")
        return message_factory.GetMessageClass(found)

    def _message(self, package: str, name: str) -> str:
        identifier = _identifier(package, name)
        if identifier not in self._made:
            self._made.add(identifier)
            message = self._file.message_type.add(name=identifier)
            if name in _ONE_OF_SEVERAL:
                for number, go in enumerate(_ONE_OF_SEVERAL[name], 1):
                    self._field(message, package, number, go)
            else:
                self._fields(message, package, name)
        return identifier

    def _fields(self, message: Any, package: str, name: str) -> None:
        for json_name, fact in facts.load()[package][name]["fields"].items():
            if fact.get("pb") and is_known(name, json_name, NEWEST_OF.get(package, NEWEST)):
                self._field(message, package, fact["pb"], fact["type"])

    def _field(self, message: Any, package: str, number: int, go: str) -> None:
        label, kind, type_name = self._typed(message, package, number, go.lstrip("*"))
        message.field.add(name=f"f{number}", number=number, label=label, type=kind, type_name=type_name or None)

    def _typed(self, message: Any, package: str, number: int, go: str) -> tuple[int, int, str]:
        if go in _SCALARS:
            return _FIELD.LABEL_OPTIONAL, _SCALARS[go], ""
        if go.startswith("[]"):
            _, kind, type_name = self._typed(message, package, number, go[2:].lstrip("*"))
            return _FIELD.LABEL_REPEATED, kind, type_name
        if go.startswith("map["):
            made = message.nested_type.add(name=f"F{number}Entry")  # the name of map f{number}'s entries by rule
            made.options.map_entry = True
            made.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_STRING)
            _, kind, type_name = self._typed(message, package, number, go.partition("]")[2].lstrip("*"))
            made.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL, type=kind, type_name=type_name or None)
            return _FIELD.LABEL_REPEATED, _FIELD.TYPE_MESSAGE, f".k.{message.name}.{made.name}"
        return self._named(message, package, number, go)

    def _named(self, message: Any, package: str, number: int, go: str) -> tuple[int, int, str]:
        qualifier, _, name = go.rpartition(".")
        if name in _SPECIAL:
            return _FIELD.LABEL_OPTIONAL, _FIELD.TYPE_MESSAGE, f".k.{_SPECIAL[name]}"
        group = package.partition("/")[0]
        known = (package, f"{group}/v1", f"{group}/v1beta1", "core/v1", "meta/v1")
        home = next(p for p in (_QUALIFIERS[qualifier] if qualifier else known) if name in facts.load()[p])
        alias = facts.load()[home][name].get("alias", "")
        if alias.startswith("[]") and name != "ValidationRules":
            made = self._file.message_type.add(name=f"{message.name}_{number}_{name}")
            made.field.add(name="items", number=1, label=_FIELD.LABEL_REPEATED, type=_SCALARS[alias[2:]])
            return _FIELD.LABEL_OPTIONAL, _FIELD.TYPE_MESSAGE, f".k.{made.name}"
        if alias:
            return self._typed(message, home, number, alias)
        return _FIELD.LABEL_OPTIONAL, _FIELD.TYPE_MESSAGE, f".k.{self._message(home, name)}"


def _identifier(package: str, name: str) -> str:
    return f"{package.replace('/', '_')}_{name}"
