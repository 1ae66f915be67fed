"""ConfigMaps and Secrets: keys, sizes, what types of secrets need, and contents that may be fixed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.decoding.syntax import explain_syntax
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import problems_of
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column, ResourceDefinition
from cathedra.kinds.strategies import ObjectRules

MAX_SIZE: Final = 1024 * 1024
_ACCOUNT: Final = "kubernetes.io/service-account.name"
_JSON_KEYS: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}
"""Type of a secret → key of its data that holds JSON."""
_JSON_NAMES: Final = ((bool, "bool"), (str, "string"), ((int, float), "number"), (list, "array"))
_FIXED: Final = "field is immutable when `immutable` is set"
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_KEY_TEXT: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
CONFIGMAP_COLUMNS: Final = (NAME, Column("Data", type="string", description="How many entries."), AGE)
SECRET_COLUMNS: Final = (
    NAME,
    Column("Type", description="What the secret is for."),
    Column("Data", type="string", description="How many entries."),
    AGE,
)


def default_secret(secret: core_v1.Secret) -> core_v1.Secret:
    """Return the object with its defaults: an opaque secret; plain texts of ``stringData`` join the data."""
    merged = {**secret.data, **{key: text.encode() for key, text in secret.string_data.items()}}
    return replace(secret, type=secret.type or "Opaque", data=merged, string_data={})


def validate_keys(errors: ErrorList, path: FieldPath, keys: Iterable[str]) -> None:
    for key in sorted(keys):
        _validate_key(errors, path, key)


def _validate_key(errors: ErrorList, path: FieldPath, key: str) -> None:
    for problem in problems_of(_file_name, key):
        errors.invalid(path.key(key), key, problem)


def _file_name(key: str) -> list[str]:
    problems = ["must be no more than 253 characters"] if len(key.encode()) > 253 else []
    if not _KEY.fullmatch(key):
        problems.append(_KEY_TEXT)
    elif key in (".", ".."):
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def validate_config_map(config: core_v1.ConfigMap) -> ErrorList:
    """Require that keys are file names, no key is in both maps, all together fit into a mebibyte."""
    errors, data, binary = ErrorList(), config.data, config.binary_data
    for key in sorted(data):
        _validate_key(errors, _DATA, key)
        if key in binary:
            errors.invalid(_DATA.key(key), key, "duplicate of key present in binaryData")
    size = 0
    if binary:
        validate_keys(errors, _BINARY_DATA, binary)
        size = sum(map(len, binary.values()))
    # A character is four bytes at most; to encode the texts would cost more than the rest.
    if size + 4 * sum(map(len, data.values())) > MAX_SIZE:
        size += sum(len(value.encode()) for value in data.values())
        if size > MAX_SIZE:
            errors.too_long(FieldPath("[]"), MAX_SIZE)
    return errors


_DATA: Final = FieldPath("data")
_BINARY_DATA: Final = FieldPath("binaryData")


def validate_config_map_update(new: core_v1.ConfigMap, old: core_v1.ConfigMap) -> ErrorList:
    """Require that immutable data is unchanged."""
    if not old.immutable:
        return validate_config_map(new)
    errors = ErrorList()
    if not new.immutable:
        errors.forbidden("immutable", _FIXED)
    if new.data != old.data:
        errors.forbidden("data", _FIXED)
    if new.binary_data != old.binary_data:
        errors.forbidden("binaryData", _FIXED)
    errors.extend(validate_config_map(new))
    return errors


def validate_secret(secret: core_v1.Secret) -> ErrorList:
    """Require that keys are file names, all together fit into a mebibyte."""
    errors = ErrorList()
    validate_keys(errors, FieldPath("data"), secret.data)
    if sum(len(value) for value in secret.data.values()) > MAX_SIZE:
        errors.too_long("data", MAX_SIZE)
    _check_type(errors, secret)
    return errors


def _check_type(errors: ErrorList, secret: core_v1.Secret) -> None:
    """Check that a secret has what its type promises."""
    data, kind = secret.data, secret.type
    if kind == "kubernetes.io/service-account-token":
        if not secret.metadata.annotations.get(_ACCOUNT):
            errors.required(f"metadata.annotations[{_ACCOUNT}]")
    elif kind in _JSON_KEYS:
        key = _JSON_KEYS[kind]
        if key not in data:
            errors.required(_DATA.key(key))
        elif problem := _json_problem(data[key]):
            errors.invalid(_DATA.key(key), "<secret contents redacted>", problem)
    elif kind == "kubernetes.io/basic-auth":
        # Either may be empty or absent, but not both absent.
        if not {"username", "password"} & data.keys():
            errors.required(_DATA.key("username"))
            errors.required(_DATA.key("password"))
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            errors.required(_DATA.key("ssh-privatekey"))
    elif kind == "kubernetes.io/tls":
        for key in ("tls.crt", "tls.key"):
            if key not in data:
                errors.required(_DATA.key(key))


def _json_problem(data: bytes) -> str:
    """Return why ``data`` is no JSON object, in Go's words; empty if it is one."""
    problem = explain_syntax(data.decode("utf-8", "replace"))
    if problem is not None:
        return problem
    value = json.loads(data)
    if isinstance(value, dict) or value is None:
        return ""
    kind = next(name for type_, name in _JSON_NAMES if isinstance(value, type_))
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def validate_secret_update(new: core_v1.Secret, old: core_v1.Secret) -> ErrorList:
    """Require that the type and immutable data do not change."""
    errors = ErrorList()
    if new.type != old.type:
        errors.invalid("type", new.type, "field is immutable")
    if old.immutable:
        if not new.immutable:
            errors.forbidden("immutable", _FIXED)
        if new.data != old.data:
            errors.forbidden("data", _FIXED)
    errors.extend(validate_secret(new))
    return errors


def config_map_definition() -> ResourceDefinition[core_v1.ConfigMap]:
    """Return the definition of configmaps."""
    return BuiltinKind(
        core_v1.ConfigMap,
        "configmaps",
        namespaced=True,
        rules=ObjectRules(validate_config_map, validate_config_map_update),
        table=(CONFIGMAP_COLUMNS, configmap_cells),
        short_names=("cm",),
    ).definition()


def secret_definition() -> ResourceDefinition[core_v1.Secret]:
    """Return the definition of secrets."""
    return BuiltinKind(
        core_v1.Secret,
        "secrets",
        namespaced=True,
        default=default_secret,
        rules=ObjectRules(validate_secret, validate_secret_update),
        table=(SECRET_COLUMNS, secret_cells),
        field_selectors={"type": lambda secret: secret.type},
    ).definition()


def configmap_cells(config: core_v1.ConfigMap, now: float) -> list[Any]:
    """Return the cells of a ConfigMap."""
    entries = len(config.data) + len(config.binary_data)
    return [config.metadata.name, entries, age(config.metadata.creation_timestamp, now)]


def secret_cells(secret: core_v1.Secret, now: float) -> list[Any]:
    """Return the cells of a Secret."""
    return [secret.metadata.name, secret.type, len(secret.data), age(secret.metadata.creation_timestamp, now)]
