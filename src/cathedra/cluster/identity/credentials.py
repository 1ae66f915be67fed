"""A kubeconfig for each part of a cluster, made from its data directory: every part is a user of its own.

Scheduler, controller manager and nodes get certificates of the users that Kubernetes gives them. A driver is a service
account, and what it may write depends on its node; so it gets a token that is bound to the Node object, from an API
server that runs. The keys of the authorities stay in the data directory.

What a node on another machine, or in another process, needs to join a cluster: a folder of files.

A kubeconfig for the node's own user, a serving certificate under its name and addresses, and the authority of the
certificate that the API server shows. The authorities' keys stay in the data directory.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from cathedra.api.core.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from cathedra.api.formats import dns_subdomain
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.resources import NODES, SERVICEACCOUNTS
from cathedra.clock import Clock
from cathedra.cluster import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.identity.permissions import CONTROLLER_MANAGER, SCHEDULER, install_driver_permissions, node_user
from cathedra.files.atomic import write_durable

PARTS: Final = "admin, scheduler, controller-manager, node:NAME or driver:NAME@NODE"
"""Forms of a part's name on the command line."""
TOKEN_SECONDS: Final = 365 * 86400
"""Validity of a driver's token, in seconds."""
_CONTROL_PLANE: Final = {"scheduler": SCHEDULER, "controller-manager": CONTROLLER_MANAGER}
_SYSTEM: Final = "kube-system"


@dataclass(frozen=True, slots=True)
class Part:
    """A part that connects to the API server."""

    kind: str
    """``admin``, ``scheduler``, ``controller-manager``, ``node`` or ``driver``."""
    name: str = ""
    node: str = ""


def parse_part(text: str) -> Part:
    """Return the part that a text means.

    Raises:
        InvalidOption: it means none.
    """
    kind, colon, name = text.partition(":")
    if not colon and kind in ("admin", *_CONTROL_PLANE):
        return Part(kind)
    part = None
    if colon and kind == "node":
        part = Part(kind, name, name)
    elif colon and kind == "driver":
        driver, at, node = name.partition("@")
        if not at:
            raise InvalidOption(
                f"--for {text}: say on which node, since a driver may write for its own alone: {text}@NODE"
            )
        part = Part(kind, driver, node)
    if part is None:
        raise InvalidOption(f"--for {text!r} is no part: it must be {PARTS}")
    for each in (part.name, part.node):
        if problems := dns_subdomain(each):
            raise InvalidOption(f"--for {text}: {each!r}: {problems[0]}")
    return part


def administrator_of(data: DataDir) -> Target:
    """Return the administrator's target, where the cluster's server is.

    Raises:
        InvalidOption: no API server has been started on the data directory yet.
    """
    if not data.kubeconfig.exists() or not (data.path / "pki" / "ca.key").exists():
        raise InvalidOption(f"{data.path} has no certificates yet; start cathedra apiserver or cathedra up on it first")
    return kubeconfig.load(data.kubeconfig)


async def part_target(data: DataDir, part: Part, *, servers: Sequence[str] = (), clock: Clock) -> Target:
    """Return the API server's address and the credentials of ``part``; ``servers`` replace the URL. One of them issues
    the token of a driver if the server of the data directory does not answer.

    Raises:
        InvalidOption: the cluster does not exist or does not run, the node does not exist, or a server is no URL.
        KubeconfigError: the administrator's kubeconfig cannot be read.
    """
    administrator = administrator_of(data)
    target = _at(administrator, servers)
    if part.kind == "admin":
        return target
    target = dataclasses.replace(target, client_certificate=b"", client_key=b"", name=_context(administrator, part))
    if part.kind == "driver":
        issuers = dataclasses.replace(administrator, further=target.servers)
        return dataclasses.replace(target, token=await _driver_token(issuers, part, clock))
    user = _CONTROL_PLANE.get(part.kind) or node_user(part.name)
    return _with_certificate(target, data.path, user, clock)


def _at(target: Target, servers: Sequence[str]) -> Target:
    """Return a target at these servers; without any, where it is.

    Raises:
        InvalidOption: one of them is no URL.
    """
    if not servers:
        return target
    for server in servers:
        url = urlsplit(server)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise InvalidOption(f"--server {server!r} is no URL of an API server, such as https://10.0.0.1:6443")
    first, *further = (server.rstrip("/") for server in servers)
    return dataclasses.replace(target, server=first, further=tuple(further))


def _context(administrator: Target, part: Part) -> str:
    return "-".join(filter(None, (administrator.name, part.kind, part.name)))


def _with_certificate(target: Target, data: Path, user: UserInfo, clock: Clock) -> Target:
    pair = PKI(data / "pki", clock.now()).client(user.name, user.groups)
    return dataclasses.replace(target, client_certificate=pair.certificate, client_key=pair.key)


async def _driver_token(administrator: Target, part: Part, clock: Clock) -> str:
    """Return a token of the driver's account, bound to the Node object. Create the account and its permissions if they
    are missing."""
    async with await HTTPTransport.open(administrator) as transport:
        client = Client(transport, clock=clock)
        try:
            node = await client.resource(NODES).get(part.node)
            await install_driver_permissions(client, part.name)
            bound = BoundObjectReference(api_version="v1", kind="Node", name=part.node, uid=node.metadata.uid)
            request = TokenRequest(spec=TokenRequestSpec(expiration_seconds=TOKEN_SECONDS, bound_object_ref=bound))
            accounts = client.resource(SERVICEACCOUNTS, _SYSTEM)
            answer: TokenRequest = await accounts.create_subresource(part.name, "token", request)
        except StatusError as error:
            if error.is_not_found:
                raise InvalidOption(
                    f"--for driver:{part.name}@{part.node}: there is no node {part.node!r} yet; a driver's token is "
                    "bound to it, so let the node join first"
                ) from error
            raise InvalidOption(f"--for driver:{part.name}@{part.node}: {error.status.message}") from error
        except ConnectionError as error:
            raise InvalidOption(
                f"--for driver:{part.name}@{part.node} needs the API server, which issues the driver's token, but it "
                f"does not answer: {error}"
            ) from error
    return answer.status.token


def enrol(
    data_dir: Path, node: str, addresses: Sequence[str], folder: Path, *, servers: Sequence[str] = (), clock: Clock
) -> None:
    """Write ``kubeconfig``, ``kubelet.crt``, ``kubelet.key`` and ``client-ca.crt`` for ``node`` into ``folder``.

    ``servers`` replace the URL of the API server: several, or the one of a load balancer.

    Raises:
        InvalidOption: no API server has been started on ``data_dir`` yet, or name, addresses or servers are none.
        OSError: a file cannot be read or written.
    """
    if problems := dns_subdomain(node):
        raise InvalidOption(f"--node-name {node!r}: {problems[0]}")
    for address in addresses:
        _check_address(address)
    administrator = administrator_of(DataDir(data_dir))
    pki = PKI(data_dir / "pki", clock.now())
    user = pki.client(f"system:node:{node}", ("system:nodes",))
    serving = pki.node_certificate(node, tuple(addresses))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kubeconfig.write(
        folder / "kubeconfig",
        dataclasses.replace(
            _at(Target(server=administrator.server), servers),
            certificate_authority=pki.authority_certificate,
            client_certificate=user.certificate,
            client_key=user.key,
        ),
    )
    write_durable(folder / "kubelet.key", serving.key)
    write_durable(folder / "kubelet.crt", serving.certificate, mode=0o644)
    write_durable(folder / "client-ca.crt", pki.kubelet_client_authority, mode=0o644)


def _check_address(address: str) -> None:
    try:
        ipaddress.ip_address(address)
    except ValueError as error:
        raise InvalidOption(f"--address must be an IP address under which the node is reached: {error}") from error
