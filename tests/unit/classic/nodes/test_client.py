"""Registration of drivers at kubelets until 1.31, and the texts of refusals."""

from __future__ import annotations

import pytest

from cathedra.classic.nodes.client import RegisteredVersions, UnsupportedVersions, highest_version
from cathedra.node.plugins.client import RegistrationError
from tests.unit.classic.world import gates


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (("1.0.0",), (1, 0, 0)),
        (("v1.2", "1.0.0"), (1, 2)),
        (("2.0.0", "1.0.0"), (1, 0, 0)),
        (("1.0", "1.0.0", "v1beta1.DRAPlugin"), (1, 0, 0)),
        (("1.0.0-rc.1",), (1, 0, 0)),
    ],
)
def test_the_highest_version_below_2_counts(offered: tuple[str, ...], expected: tuple[int, ...]) -> None:
    assert highest_version(offered) == expected


@pytest.mark.parametrize(
    ("offered", "text"),
    [
        (("0.9.1",), "highest supported version reported by plugin is 0.9.1, must be v1.x"),
        (("2.0",), "could not find a highest supported version from versions ([2.0]) reported by this plugin: <nil>"),
        (
            ("v1.DRAPlugin", "latest"),
            "could not find a highest supported version from versions ([v1.DRAPlugin latest]) reported by this plugin: "
            'illegal version string "v1.DRAPlugin"',
        ),
        (("latest",), 'could not parse "latest" as version'),
        (("01.0",), 'illegal zero-prefixed version component "01" in "01.0"'),
    ],
)
def test_other_versions_are_refused(offered: tuple[str, ...], text: str) -> None:
    with pytest.raises(UnsupportedVersions) as refusal:
        highest_version(offered)
    assert str(refusal.value).endswith(text)


def said(registered: RegisteredVersions, *offered: str) -> str:
    with pytest.raises(RegistrationError) as refusal:
        registered.enter("d.example.com", "/p/dra.sock", offered)
    return str(refusal.value)


@pytest.mark.parametrize("release", ["1.26", "1.30"])
def test_until_1_30_the_endpoint_and_the_step_are_told(release: str) -> None:
    registered = RegisteredVersions(gates(release))
    begin = (
        "validation failed for DRA plugin d.example.com at endpoint /p/dra.sock: "
        'kubernetes.io/dra: ValidatePlugin for DRA plugin "d.example.com" failed. '
    )
    assert said(registered) == f"{begin}Plugin returned an empty list for supported versions"
    assert said(registered, "2.0", "3.0") == (
        f'{begin}None of the versions specified ["2.0" "3.0"] are supported. err=could not find a highest supported '
        "version from versions ([2.0 3.0]) reported by this plugin: <nil>"
    )
    registered.enter("d.example.com", "/p/first.sock", ("1.0.0",))
    assert said(registered, "1.0.0") == (
        f'{begin}Another plugin with the same name is already registered with a higher supported version: "1.0.0"'
    )


def test_in_1_31_the_texts_are_shorter() -> None:
    registered = RegisteredVersions(gates("1.31"))
    begin = 'validating DRA plugin "d.example.com": '
    assert said(registered) == f"{begin}empty list for supported versions"
    assert said(registered, "0.1").startswith(f'{begin}none of the versions specified ["0.1"] are supported: highest')
    registered.enter("d.example.com", "/p/first.sock", ("1.1.0",))
    assert said(registered, "1.0.0") == (
        f"{begin}another plugin with the same name is already registered with a higher supported version: "
        '"1.0.0" < "1.1.0"'
    )


def test_a_higher_version_takes_over_and_a_driver_that_left_may_come_back() -> None:
    registered = RegisteredVersions(gates("1.28"))
    for version in ("1.0.0", "1.0.1"):
        registered.enter("d.example.com", "/p/dra.sock", (version,))
    registered.leave("d.example.com")
    registered.leave("d.example.com")
    registered.enter("d.example.com", "/p/dra.sock", ("1.0.0",))
    registered.enter("other.example.com", "/q/dra.sock", ("1.0.0",))
