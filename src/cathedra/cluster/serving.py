"""The API server of a data directory: its store, its port, its certificates, and the kubeconfig that leads there.

Used by the whole cluster in one process and by the API server alone, so that a data directory can be served by either.
"""

from __future__ import annotations

import errno
import secrets
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.authenticator import PUBLIC_PATHS
from cathedra.apiserver.authentication.pki import ADMIN, PKI, KubeletTLS, NodeIdentity
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.pipeline.audit import AuditPolicy, PolicyError, load_policy
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.primary import PrimaryStore
from cathedra.apiserver.storage.protocol import SharedStorage, Storage, StorageError
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.kubeconfig import KubeconfigError, Target
from cathedra.clock import Clock
from cathedra.cluster.config import ClusterConfig, InvalidOption, KubeletOptions
from cathedra.cluster.data.datadir import DataDir, socket_of
from cathedra.cluster.data.directories import own_context
from cathedra.cluster.identity.permissions import install_kubelet_permissions, install_scheduler_permissions
from cathedra.cluster.parts.generations import generation_of
from cathedra.files.atomic import write_durable
from cathedra.releases import FeatureGates
from cathedra.session.server import listen_on_socket, serve_sessions

_METRICS: Final = "metrics.k8s.io/v1beta1"
"""Served in a metrics server's stead, for ``kubectl top``."""


async def open_server(config: ClusterConfig, *, gates: FeatureGates, clock: Clock, random: Random) -> APIServer:
    """Return an API server that serves ``config.data_dir``; its caller closes it.

    The port of the first start is remembered, so that kubeconfigs stay true over restarts.

    Raises:
        InvalidOption: the store's address makes no sense, or the port is taken.
        UnknownAPIGroup: there is no such API group to serve.
        PolicyError: the audit policy cannot be understood.
        OSError: the port cannot be opened for another reason.
        StorageError: the store cannot be read.
    """
    try:
        server = await APIServer.open(
            _server_config(config, gates), clock=clock, random=random, store=_store(config, clock)
        )
    except StatusError as error:
        raise _unusable(config, error) from error
    # Before the port opens: a client that offers the session protocol at once must be able to upgrade.
    serve_sessions(server)
    remembered = config.data_dir / "port"
    port = config.port or (_remembered_port(remembered) if remembered.exists() else 0)
    options = _serve_options(config, port, clock)
    try:
        await server.serve(options)
        client = Client(server.transport(), clock=clock)
        await install_kubelet_permissions(client)
        await install_scheduler_permissions(client)
    except BaseException as error:
        await server.close()
        if isinstance(error, StatusError):
            raise _unusable(config, error) from error
        if isinstance(error, OSError) and (refused := _unusable_address(config, port, error)):
            raise refused from error
        raise
    # Only after success: a failed start must not change the port of the next one.
    write_durable(remembered, f"{server.port}\n".encode())
    return server


def _unusable_address(config: ClusterConfig, port: int, error: OSError) -> InvalidOption | None:
    """Return the error of an option whose address or port cannot be opened; None if ``error`` has another reason."""
    address = config.reach.bind_address
    if error.errno == errno.EADDRNOTAVAIL:
        return InvalidOption(f"--bind-address {address} is no address of this machine")
    if error.errno == errno.EADDRINUSE:
        text = f"port {port} of {address} is in use by another program"
        return InvalidOption(f"{text}; stop that, or choose another one with --port")
    return None


def _unusable(config: ClusterConfig, error: StatusError) -> StorageError:
    """Return the error of a start whose first writes the store refused. To clients the server names no files."""
    where = config.store if config.store.startswith("etcd://") else config.data_dir
    return StorageError(f"what every cluster has could not be written to {where}: {error}")


def _remembered_port(file: Path) -> int:
    text = file.read_text(encoding="utf-8", errors="replace").strip()
    if text.isascii() and text.isdecimal() and int(text) <= 65535:
        return int(text)
    raise InvalidOption(
        f"{file} holds no port but {text[:40]!r}: write the port there that the kubeconfigs name, or choose one with "
        "--port"
    )


async def open_beside(
    config: ClusterConfig, primary: PrimaryStore | None, *, gates: FeatureGates, clock: Clock, random: Random
) -> APIServer:
    """Open an API server beside the one that serves ``config.data_dir``, on the store of that (``primary``), or on the
    etcd that both share. Its caller closes it.

    Raises:
        StoreUnavailable: that server has gone.
        StorageError: the store cannot be read.
    """
    store = primary or _store(config, clock)
    server = await APIServer.open(_server_config(config, gates), clock=clock, random=random, store=store)
    serve_sessions(server)
    server.serve_process(PKI(config.data_dir / "pki", clock.now()))
    return server


async def serve_beside(server: APIServer, config: ClusterConfig, port: int, connections: socket.socket) -> None:
    """Serve the connections that the first server passes on."""
    await server.serve_dealt(_serve_options(config, port, server.context.clock), connections)


def _serve_options(config: ClusterConfig, port: int, clock: Clock) -> ServeOptions:
    pki, reach = config.data_dir / "pki", config.reach
    return ServeOptions(
        host=reach.bind_address,
        port=port,
        pki=pki,
        anonymous=PUBLIC_PATHS,
        kubelet=_kubelet_tls(config.kubelet, PKI(pki, clock.now())),
        names=reach.certificate_names,
        advertised=reach.advertised,
        client_authority=reach.client_authority,
    )


def _server_config(config: ClusterConfig, gates: FeatureGates) -> ServerConfig:
    return ServerConfig(
        release=config.release,
        gates=gates,
        definitions=generation_of(gates).definitions,
        runtime_config={_METRICS: True, **config.runtime_config},
        authorization=True,
        service_accounts=True,
        node_lifecycle=True,
        # Rounded up, so that a small limit never becomes 0 for a process.
        max_requests_inflight=-(-config.max_requests_inflight // config.apiserver_count),
        audit_log=config.audit_log,
        audit_policy=_audit_policy(config.audit_policy),
    )


def _audit_policy(file: Path | None) -> AuditPolicy:
    if file is None:
        return AuditPolicy()
    try:
        return load_policy(file.read_text(encoding="utf-8"))
    except (PolicyError, UnicodeDecodeError) as error:
        raise PolicyError(f"--audit-policy-file {file}: {error}") from error


def _kubelet_tls(options: KubeletOptions, pki: PKI) -> KubeletTLS:
    own = pki.kubelet_client()
    files = KubeletTLS(
        options.client_certificate or own.certificate,
        options.client_key or own.key,
        options.authority or own.authority,
        NodeIdentity.NAME if options.authority is None else NodeIdentity.ADDRESS,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_cert_chain(files.certificate, files.key)
        context.load_verify_locations(files.authority)
    except ssl.SSLError as error:
        raise InvalidOption(
            f"--kubelet-client-certificate, --kubelet-client-key and --kubelet-certificate-authority: {error.reason}: "
            f"{files.certificate}, {files.key} and {files.authority} cannot be used together"
        ) from error
    return files


def write_kubeconfig(
    server: APIServer, config: ClusterConfig, path: Path, *, merge: bool, say: Callable[[str], None]
) -> None:
    """Write the administrator's stand-alone kubeconfig; with ``merge`` also enter a context into the user's own.

    Raises:
        KubeconfigError: the user's own cannot be changed.
    """
    pki = server.pki
    assert pki is not None, "the server serves TLS"
    administrator = pki.administrator()
    target = Target(
        server=server.url,
        name=_free_context(config) if merge else config.context,
        data_dir=str(config.data_dir),
        certificate_authority=pki.authority_certificate,
        client_certificate=administrator.certificate,
        client_key=administrator.key,
    )
    kubeconfig.write(path, target)
    if merge:
        backup = kubeconfig.merge(target)
        say(f"context {target.name!r} is now current" + (f" (backup: {backup})" if backup else ""))


def _free_context(config: ClusterConfig) -> str:
    """Return the cluster's context, or one of its own if another cluster that still exists has entered that one."""
    holder = kubeconfig.taken_by(config.context)
    # A context of a cluster that was deleted may be taken over; one that still exists belongs to its cluster.
    taken = holder not in ("", str(config.data_dir)) and DataDir(Path(holder)).exists()
    return own_context(config.context.removeprefix("cathedra-"), config.data_dir) if taken else config.context


async def serve_parts(server: APIServer, config: ClusterConfig) -> None:
    """Listen on the data directory's socket too, for parts on this machine, and write the kubeconfig that leads there.

    Its user is the administrator, by a token that stays the same over restarts: the administrator's key lies beside it.

    Raises:
        OSError: the socket cannot be made.
    """
    assert server.pki is not None, "the server serves TLS"
    data = DataDir(config.data_dir)
    path, authority = socket_of(config.data_dir), server.pki.authority_certificate
    # The same token over restarts: parts that run on their own reconnect without a new kubeconfig.
    token = _former_token(data.local_kubeconfig) or secrets.token_urlsafe(32)
    await listen_on_socket(server, path, {token: UserInfo(*ADMIN)})
    target = Target(f"{kubeconfig.UNIX}{path}", config.context, certificate_authority=authority, token=token)
    kubeconfig.write(data.local_kubeconfig, target)


def _former_token(path: Path) -> str:
    try:
        return kubeconfig.load(path).token
    except KubeconfigError:
        return ""


def _store(config: ClusterConfig, clock: Clock) -> Storage | SharedStorage | None:
    if config.store == "memory":
        return None
    if config.store.startswith("etcd://"):
        # gRPC costs a start some 60 ms that only this store needs.
        from cathedra.apiserver.storage.etcd import EtcdAddress, EtcdStorage

        try:
            address = EtcdAddress.parse(config.store)
        except ValueError as error:
            raise InvalidOption(f"--store: {error}") from error
        return EtcdStorage(address, clock=clock)
    return SQLiteStorage(config.data_dir / "objects.sqlite", accept_lost_writes=config.accept_lost_writes)
