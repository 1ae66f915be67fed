"""``--store etcd://…``: hosts, ports, TLS files, prefix, and what is wrong when it makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.apiserver.storage.etcd.connection import EtcdAddress


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("etcd://127.0.0.1:2379", ("127.0.0.1:2379",)),
        ("etcd://a,b:1,c:65535/", ("a:2379", "b:1", "c:65535")),
        ("etcd://[::1]:7,[::1]", ("[::1]:7", "[::1]:2379")),
    ],
)
def test_endpoints_have_a_port_of_their_own_or_etcd_s(text: str, endpoints: tuple[str, ...]) -> None:
    address = EtcdAddress.parse(text)
    assert (address.endpoints, address.prefix, address.tls) == (endpoints, "/registry", False)


def test_tls_files_and_prefix_come_as_options(tmp_path: Path) -> None:
    for name in ("ca", "crt", "key"):
        (tmp_path / name).touch()
    address = EtcdAddress.parse(
        f"etcd://a?cafile={tmp_path}/ca&certfile={tmp_path}/crt&keyfile={tmp_path}/key&prefix=two/"
    )
    assert address.tls
    assert (address.ca_file, address.certificate_file, address.key_file) == tuple(
        tmp_path / name for name in ("ca", "crt", "key")
    )
    assert address.prefix == "/two"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("http://a:1", "does not begin with etcd://"),
        ("etcd://", "'' is not HOST:PORT"),
        ("etcd://a:0", "'a:0' is not HOST:PORT"),
        ("etcd://a:x", "'a:x' is not HOST:PORT"),
        ("etcd://a,,b", "'' is not HOST:PORT"),
        ("etcd://a/b", "'a/b' is not HOST:PORT"),
        ("etcd://a?color=red", "unknown option 'color'; there are cafile, certfile, keyfile, prefix"),
        ("etcd://a?certfile=/dev/null", "certfile and keyfile go together"),
        ("etcd://a?cafile=/no/such/file", "there is no file /no/such/file"),
    ],
)
def test_what_makes_no_sense_is_named(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=r"^'") as caught:
        EtcdAddress.parse(text)
    assert wrong in str(caught.value)
