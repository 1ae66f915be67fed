"""Bootstrap tokens: which secrets can be used, for what, and until when."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import Secret
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import Time, replace
from cathedra.semantics.bootstraptokens import AUTHENTICATION, SIGNING, expiration, token_of

NOW = 1_800_000_000.0  # in January of 2027


def secret(**data: str) -> Secret:
    """A token that can be used, with these fields instead."""
    given = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        AUTHENTICATION: "true",
        **{name.replace("_", "-"): text for name, text in data.items()},
    }
    return Secret(
        metadata=ObjectMeta(name="bootstrap-token-abcdef", namespace="kube-system"),
        type="bootstrap.kubernetes.io/token",
        data={name: text.encode() for name, text in given.items()},
    )


def test_a_token_names_a_user_and_groups() -> None:
    found = token_of(secret(auth_extra_groups="system:bootstrappers:a,system:bootstrappers:b"), AUTHENTICATION, NOW)
    assert found is not None
    assert (found.user, found.secret) == ("system:bootstrap:abcdef", "0123456789abcdef")
    assert found.groups == ("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b")


@pytest.mark.parametrize(
    "wrong",
    [
        {"token_id": "ABCDEF"},
        {"token_id": "ghijkl"},
        {"token_secret": "short"},
        {"usage_bootstrap_authentication": "yes"},
        {"auth_extra_groups": "system:masters"},
        {"expiration": "2026-01-01T00:00:00Z"},
        {"expiration": "soon"},
        {"expiration": "2028-13-01T00:00:00Z"},
    ],
)
def test_whatever_is_wrong_makes_it_worthless(wrong: dict[str, str]) -> None:
    assert token_of(secret(**wrong), AUTHENTICATION, NOW) is None


def test_it_is_good_until_it_ends_and_for_what_it_says() -> None:
    lasting = secret(expiration="2028-01-01T00:00:00+02:00")
    assert token_of(lasting, AUTHENTICATION, NOW) is not None
    assert token_of(lasting, SIGNING, NOW) is None
    assert expiration(lasting) == 1_830_290_400.0
    assert expiration(secret()) is None


def test_other_secrets_and_those_that_go_are_none() -> None:
    good = secret()
    elsewhere = replace(good, metadata=replace(good.metadata, namespace="default"))
    going = replace(good, metadata=replace(good.metadata, deletion_timestamp=Time(NOW)))
    for other in (replace(good, type="Opaque"), elsewhere, going):
        assert token_of(other, AUTHENTICATION, NOW) is None
