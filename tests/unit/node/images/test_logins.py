"""Which secret opens which registry."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from cathedra.node.images.logins import logins_for
from cathedra.node.runtime.runtime import RegistryLogin


def secret(**auths: Any) -> Mapping[str, bytes]:
    return {".dockerconfigjson": json.dumps({"auths": auths}).encode()}


ENTRY = {"username": "u", "password": "p"}


@pytest.mark.parametrize(
    ("server", "image", "fits"),
    [
        ("quay.io", "quay.io/a/b", True),
        ("https://quay.io/v1/", "quay.io/a/b:1", True),
        ("quay.io/a", "quay.io/a/b", True),
        ("quay.io/a", "quay.io/ab/c", False),
        ("*.example.com", "x.example.com/a", True),
        ("*.example.com", "x.y.example.com/a", False),
        ("https://index.docker.io/v1/", "busybox", True),
        ("quay.io", "gcr.io/a", False),
        ("quay.io:5000", "quay.io/a", False),
    ],
)
def test_a_key_fits_host_and_path(server: str, image: str, fits: bool) -> None:
    assert bool(logins_for(image, [secret(**{server: ENTRY})])) == fits


def test_the_most_particular_key_comes_first() -> None:
    keys = {"quay.io": {"username": "all"}, "quay.io/team": {"username": "team"}}
    assert [login.username for login in logins_for("quay.io/team/x", [secret(**keys)])] == ["team", "all"]


def test_name_and_password_may_be_one_word() -> None:
    auth = base64.b64encode(b"me:se:cret").decode()
    [login] = logins_for("quay.io/a", [secret(**{"quay.io": {"auth": auth, "identitytoken": "t"}})])
    assert login == RegistryLogin("me", "se:cret", server="quay.io", identity_token="t")


def test_the_older_form_of_secrets_is_known() -> None:
    content = {".dockercfg": json.dumps({"quay.io": ENTRY}).encode()}
    assert [login.password for login in logins_for("quay.io/a", [content])] == ["p"]


@pytest.mark.parametrize("content", [b"no json", b"[]", b'{"auths": []}', b'{"auths": {"quay.io": "x"}}'])
def test_what_is_no_configuration_opens_nothing(content: bytes) -> None:
    assert logins_for("quay.io/a", [{".dockerconfigjson": content}, {}]) == ()


def test_a_broken_word_is_no_name() -> None:
    [login] = logins_for("quay.io/a", [secret(**{"quay.io": {"auth": "!"}})])
    assert (login.username, login.password) == ("", "")


def test_what_is_null_is_not_given() -> None:
    entry = {"username": None, "password": None, "auth": base64.b64encode(b"me:secret").decode(), "identitytoken": None}
    [login] = logins_for("quay.io/a", [secret(**{"quay.io": entry}), {".dockerconfigjson": b'{"auths": null}'}])
    assert login == RegistryLogin("me", "secret", server="quay.io")
