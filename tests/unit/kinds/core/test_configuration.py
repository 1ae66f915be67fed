"""ConfigMaps and Secrets."""

from __future__ import annotations

import pytest

from cathedra.api.core import core_v1
from tests.unit.kinds.objects import problems_of, problems_of_change


def test_what_was_declared_immutable_stays() -> None:
    old = {"data": {"a": "b"}, "immutable": True}
    assert problems_of_change("configmaps", core_v1.ConfigMap, old, {"data": {"a": "c"}}) == [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ]
    secret = {"type": "Opaque", "data": {"a": "Yg=="}}
    assert problems_of_change("secrets", core_v1.Secret, secret, {**secret, "type": "x"}) == [
        'type: Invalid value: "x": field is immutable'
    ]


def test_keys_of_configuration_are_file_names() -> None:
    (text,) = problems_of("configmaps", core_v1.ConfigMap, {"data": {"a/b": "x"}})
    assert text.startswith('data[a/b]: Invalid value: "a/b": a valid config key must consist of')


def test_a_config_map_may_have_a_mebibyte_of_bytes() -> None:
    for text, count in (("x", 2**20), ("ä", 2**19), ("𝄞", 2**18)):
        assert problems_of("configmaps", core_v1.ConfigMap, {"data": {"a": text * count}}) == []
        (too_long,) = problems_of("configmaps", core_v1.ConfigMap, {"data": {"a": text * (count + 1)}})
        assert too_long.startswith("[]: Too long")


def test_keys_that_are_paths_elsewhere_are_refused() -> None:
    found = [problems_of("configmaps", core_v1.ConfigMap, {"data": {key: "x"}}) for key in (".", "..", "..a", ".a")]
    assert found == [
        ["data[.]: Invalid value: \".\": must not be '.'"],
        ["data[..]: Invalid value: \"..\": must not be '..'"],
        ["data[..a]: Invalid value: \"..a\": must not start with '..'"],
        [],
    ]


def test_a_key_that_was_fine_is_refused_where_it_stands_twice() -> None:
    config = {"data": {"a": "x"}}
    assert problems_of("configmaps", core_v1.ConfigMap, config) == []
    assert problems_of("configmaps", core_v1.ConfigMap, config | {"binaryData": {"a": "eA=="}}) == [
        'data[a]: Invalid value: "a": duplicate of key present in binaryData'
    ]


def test_a_bad_key_is_refused_again_and_beside_good_ones() -> None:
    for data in ({"a/b": "x"}, {"a/b": "x"}, {"a": "x", "a/b": "x"}):
        (text,) = problems_of("configmaps", core_v1.ConfigMap, {"data": data})
        assert text.startswith('data[a/b]: Invalid value: "a/b"')


@pytest.mark.parametrize(
    ("kind", "data", "wanted"),
    [
        ("kubernetes.io/dockercfg", {}, ["data[.dockercfg]: Required value"]),
        (
            "kubernetes.io/dockercfg",
            {".dockercfg": "x"},
            [
                'data[.dockercfg]: Invalid value: "<secret contents redacted>": '
                "invalid character 'x' looking for beginning of value"
            ],
        ),
        (
            "kubernetes.io/dockerconfigjson",
            {".dockerconfigjson": "[]"},
            [
                'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": json: cannot unmarshal array '
                "into Go value of type map[string]interface {}"
            ],
        ),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "{}"}, []),
        ("kubernetes.io/basic-auth", {}, ["data[username]: Required value", "data[password]: Required value"]),
        ("kubernetes.io/basic-auth", {"username": ""}, []),
        ("kubernetes.io/ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]: Required value"]),
        ("kubernetes.io/tls", {"tls.crt": ""}, ["data[tls.key]: Required value"]),
        (
            "kubernetes.io/service-account-token",
            {},
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        ),
        ("example.com/mine", {}, []),
    ],
)
def test_a_secret_has_what_its_type_promises(kind: str, data: dict[str, str], wanted: list[str]) -> None:
    assert problems_of("secrets", core_v1.Secret, {"type": kind, "stringData": data}) == wanted
