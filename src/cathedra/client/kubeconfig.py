"""Kubeconfig files, read and written as kubectl does: address of the API server, and credentials.

Reading follows kubectl's precedence: an explicit file, otherwise all of ``$KUBECONFIG`` merged (the first file with a
name wins), otherwise ``~/.kube/config``, otherwise the service account of the pod. Writing never loses anything: a
merge keeps a backup, entries of others stay as they are, and a context of others is not replaced.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.decoding import DecodeError, read_yaml, write_yaml
from cathedra.client.clustermark import data_dir_of, former_context_of, further_servers_of, is_marked, mark
from cathedra.files.atomic import write_durable

__all__ = [
    "ContextTaken",
    "CurrentContext",
    "KubeconfigError",
    "KubeconfigLocked",
    "Target",
    "current_context",
    "load",
    "merge",
    "remove",
    "taken_by",
    "write",
]

UNIX: Final = "unix://"
"""Prefix of a server that is a unix socket; its path follows."""
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubeconfigError(Exception):
    """The configuration cannot be used. The text has the remedy."""


class ContextTaken(KubeconfigError):
    """A context of that name exists and is not ours."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        super().__init__(
            f"{path}: context {name!r} exists and was not made by cathedra; choose another name or remove it with "
            f"kubectl config delete-context {name}"
        )


class KubeconfigLocked(KubeconfigError):
    """Another process is writing the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} exists: another process is writing the kubeconfig; if none is, remove that file")


@dataclass(frozen=True, slots=True)
class Target:
    """A resolved context: server, authority, and credentials."""

    server: str
    name: str = "cathedra"
    namespace: str = "default"
    certificate_authority: bytes = b""
    """PEM; empty means the system's trust store."""
    client_certificate: bytes = b""
    client_key: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """File of ``token``, which is read again when it changes; None: the token is fixed."""
    username: str = ""
    password: str = field(default="", repr=False)
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    data_dir: str = ""
    """Data directory of a cluster of ``cathedra up``; "": it is another cluster."""
    further: tuple[str, ...] = ()
    """Further servers of the same cluster, for clients that change to another one by themselves. kubectl and client-go
    use ``server`` alone."""

    @property
    def servers(self) -> tuple[str, ...]:
        """All servers of the cluster, the preferred one first."""
        return (self.server, *(url for url in self.further if url != self.server))

    @property
    def socket(self) -> Path | None:
        """The unix socket of an API server of Cathedra on this machine, if ``server`` is ``unix:`` with its path."""
        return Path(self.server.removeprefix(UNIX)) if self.server.startswith(UNIX) else None


@dataclass(frozen=True, slots=True)
class CurrentContext:
    """The cluster of the current context, without credentials."""

    name: str
    server: str
    certificate_authority: bytes
    data_dir: str
    """Data directory that `merge` recorded; "": none."""


def current_context(
    path: str | Path | None = None, *, environment: Mapping[str, str] | None = None
) -> CurrentContext | None:
    """Return the current context of the configuration that `load` reads; None if there is none.

    Credentials are not read: an expired token, a plugin or a missing file among them is no obstacle.

    Raises:
        KubeconfigError: a file is no kubeconfig.
    """
    files = _files(path, os.environ if environment is None else environment)
    merged = _merged(files or [])
    context, _ = merged.contexts.get(merged.current, ({}, Path()))
    cluster, home = merged.clusters.get(context.get("cluster", ""), ({}, Path()))
    if not cluster.get("server"):
        return None
    authority = _data(cluster, "certificate-authority", home)
    return CurrentContext(merged.current, cluster["server"].rstrip("/"), authority, data_dir_of(cluster))


def load(path: str | Path | None = None, *, context: str = "", environment: Mapping[str, str] | None = None) -> Target:
    """Return the target that a context names, by default the current one.

    Raises:
        KubeconfigError: no configuration, no such context, or something is missing in it.
    """
    environment = os.environ if environment is None else environment
    files = _files(path, environment)
    if files is None:
        return _in_cluster(environment)
    merged = _merged(files)
    name = context or merged.current
    if not name:
        raise KubeconfigError(f"{_list(files)}: current-context is not set; choose one with --context")
    if name not in merged.contexts:
        raise KubeconfigError(f"{_list(files)}: context {name!r} does not exist; see kubectl config get-contexts")
    return _resolve(name, merged)


def write(path: str | Path, target: Target) -> None:
    """Write a stand-alone kubeconfig for ``target``, readable by its owner alone; an existing file is replaced."""
    _write_atomically(Path(path), _document(target))


def encoded(target: Target) -> bytes:
    """Return a stand-alone kubeconfig for ``target``, as YAML."""
    return write_yaml(_document(target), sort_keys=False)


def _document(target: Target) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [_cluster_entry(target)],
        "users": [_user_entry(target)],
        "contexts": [_context_entry(target)],
        "current-context": target.name,
    }


def merge(
    target: Target, *, path: str | Path | None = None, environment: Mapping[str, str] | None = None
) -> Path | None:
    """Enter ``target`` as a context into the user's kubeconfig and make it current.

    Everything else in the file stays, except other contexts of the same data directory. Return the backup that was
    made, or None if there was no file before.

    Raises:
        ContextTaken: a context, cluster or user of that name exists that an earlier merge did not make.
        KubeconfigLocked: kubectl or another program is writing the file.
        KubeconfigError: the file is no kubeconfig.
    """
    # Links are followed: replacing the link by a file would detach a file that is kept elsewhere.
    home = _merge_path(path, os.environ if environment is None else environment).resolve()
    home.parent.mkdir(parents=True, exist_ok=True)
    with _locked(home):
        document = _read(home) if home.exists() else {"apiVersion": "v1", "kind": "Config"}
        merged = _with_target(home, document, target)
        backup = _back_up(home) if home.exists() else None
        _write_atomically(home, merged)
        return backup


def taken_by(name: str, *, path: str | Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Return the data directory of the cluster that `merge` entered under ``name``; "" if none is recorded.

    Raises:
        KubeconfigError: the file is no kubeconfig.
    """
    home = _merge_path(path, os.environ if environment is None else environment)
    entry = _entry(_read(home), "clusters", name) if home.exists() else None
    return data_dir_of((entry or {}).get("cluster") or {})


def remove(
    target: Target, *, path: str | Path | None = None, environment: Mapping[str, str] | None = None
) -> str | None:
    """Remove the context that `merge` entered for ``target`` from the user's kubeconfig.

    The context is that of the same data directory, or, without a recorded one, of the same name and server. If it is
    the current one, the context that was current before it becomes so again, if it is still there. Return the context
    that is now current ("": none), or None if there was nothing of ours to remove.

    Raises:
        KubeconfigLocked: kubectl or another program is writing the file.
        KubeconfigError: the file is no kubeconfig.
    """
    home = _merge_path(path, os.environ if environment is None else environment).resolve()
    if not home.exists():
        return None
    with _locked(home):
        document = _read(home)
        ours = {entry.get("name", ""): entry for entry in document.get("clusters") or () if _is_of(entry, target)}
        if not ours:
            return None
        rest = _without(document, ours)
        if rest.get("current-context") in ours:
            former = former_context_of(ours[rest["current-context"]]["cluster"])
            known = {entry.get("name") for entry in rest.get("contexts") or ()}
            rest["current-context"] = former if former in known else ""
        _back_up(home)
        _write_atomically(home, rest)
        return str(rest.get("current-context") or "")


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Hold the lock file that kubectl holds while it writes."""
    lock = home.with_name(home.name + ".lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError as error:
        raise KubeconfigLocked(lock) from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


# Reading.


class _Merged(msgspec.Struct, frozen=True):
    """Entries of all files by name, each with the folder that its relative paths start from."""

    current: str
    contexts: dict[str, tuple[dict[str, Any], Path]]
    clusters: dict[str, tuple[dict[str, Any], Path]]
    users: dict[str, tuple[dict[str, Any], Path]]


def _files(path: str | Path | None, environment: Mapping[str, str]) -> list[Path] | None:
    if path is not None:
        if not Path(path).exists():
            raise KubeconfigError(f"stat {path}: no such file or directory")
        return [Path(path)]
    listed = [Path(part) for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return [file for file in listed if file.exists()]
    standard = _home(environment) / ".kube" / "config"
    return [standard] if standard.exists() else None


def _home(environment: Mapping[str, str]) -> Path:
    return Path(environment["HOME"]) if environment.get("HOME") else Path.home()


def _list(files: list[Path]) -> str:
    return ", ".join(str(file) for file in files) or "$KUBECONFIG"


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read_yaml(path.read_bytes()).value
    except DecodeError as error:
        raise KubeconfigError(f"error loading config file {path}: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise KubeconfigError(f"error loading config file {path}: it is no kubeconfig")
    said: dict[str, Any] = _without_nulls(document)
    try:
        msgspec.convert(said, _Form)
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"error loading config file {path}: {error}{_line_of(path, str(error))}") from error
    return said


def _line_of(path: Path, problem: str) -> str:
    """Return the line in the file of a problem's path, as ``$.contexts[0].name``."""
    import yaml  # start-up time: with a malformed file alone

    _, _, place = problem.partition("`$")
    node: Any = yaml.compose(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    for step in re.findall(r"\.([\w-]+)|\[(\d+)\]", place.partition("`")[0]):
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == step[0]), node)
        elif isinstance(node, yaml.SequenceNode) and step[1]:
            node = node.value[int(step[1])]
    return f" (line {node.start_mark.line + 1})" if node is not None else ""


class _ClusterForm(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    extensions: list[dict[str, Any]] = []


class _UserForm(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""


class _ContextForm(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str = ""
    cluster: _ClusterForm | None = None


class _NamedUser(msgspec.Struct):
    name: str = ""
    user: _UserForm | None = None


class _NamedContext(msgspec.Struct):
    name: str = ""
    context: _ContextForm | None = None


class _Form(msgspec.Struct, rename="kebab"):
    """The parts of a kubeconfig that are used here; others are not interpreted."""

    current_context: str = ""
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


def _without_nulls(value: Any) -> Any:
    """``value`` without what is null in it: to Kubernetes such a field is absent, and such an item is empty."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [{} if item is None else _without_nulls(item) for item in value]
    return value


def _merged(files: list[Path]) -> _Merged:
    merged = _Merged("", {}, {}, {})
    current = ""
    for file in files:
        document = _read(file)
        current = current or document.get("current-context") or ""
        for section, inner, target in (
            ("contexts", "context", merged.contexts),
            ("clusters", "cluster", merged.clusters),
            ("users", "user", merged.users),
        ):
            for entry in document.get(section) or ():
                # The first file wins, as with kubectl. Relative paths belong to the folder of their own file.
                target.setdefault(entry.get("name", ""), (entry.get(inner) or {}, file.parent))
    return _Merged(current, merged.contexts, merged.clusters, merged.users)


def _resolve(name: str, merged: _Merged) -> Target:
    context, _ = merged.contexts[name]
    cluster_name, user_name = context.get("cluster", ""), context.get("user", "")
    if cluster_name not in merged.clusters:
        raise KubeconfigError(f"context {name!r}: cluster {cluster_name!r} does not exist")
    cluster, cluster_home = merged.clusters[cluster_name]
    user, user_home = merged.users.get(user_name, ({}, Path()))
    if user.get("exec") or user.get("auth-provider"):
        raise KubeconfigError(
            f"user {user_name!r}: credential plugins are not supported; use a token or a client certificate "
            "(kubectl create token gives one)"
        )
    if not cluster.get("server"):
        raise KubeconfigError(f"cluster {cluster_name!r}: server is not set")
    try:
        further = further_servers_of(cluster)
    except ValueError as error:
        raise KubeconfigError(f"cluster {cluster_name!r}: {error}") from error
    return Target(
        server=cluster["server"].rstrip("/"),
        name=name,
        namespace=context.get("namespace") or "default",
        certificate_authority=_data(cluster, "certificate-authority", cluster_home),
        client_certificate=_data(user, "client-certificate", user_home),
        client_key=_data(user, "client-key", user_home),
        token=_token(user, user_home),
        token_file=user_home / user["tokenFile"] if user.get("tokenFile") else None,
        username=user.get("username", ""),
        password=user.get("password", ""),
        tls_server_name=cluster.get("tls-server-name", ""),
        insecure_skip_tls_verify=bool(cluster.get("insecure-skip-tls-verify", False)),
        data_dir=data_dir_of(cluster),
        further=further,
    )


def _data(entry: Mapping[str, Any], name: str, home: Path) -> bytes:
    inline = entry.get(f"{name}-data")
    if inline:
        try:
            return base64.b64decode(inline, validate=True)
        except ValueError as error:  # also letters outside of ASCII
            raise KubeconfigError(f"{name}-data is not base64: {error}") from error
    return _file(entry.get(name), home)


def _file(path: str | None, home: Path) -> bytes:
    if not path:
        return b""
    try:
        return (home / path).read_bytes()
    except OSError as error:
        raise KubeconfigError(f"unable to read {home / path}: {error.strerror}") from error
    except ValueError as error:  # a path with a null byte
        raise KubeconfigError(f"unable to read {str(home / path)!r}: {error}") from error


def _token(user: Mapping[str, Any], home: Path) -> str:
    try:
        from_file = _file(user.get("tokenFile"), home).decode().strip()
    except UnicodeDecodeError as error:
        raise KubeconfigError(f"{home / user['tokenFile']} is no token: {error}") from error
    return from_file or user.get("token", "")


def _in_cluster(environment: Mapping[str, str]) -> Target:
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    token = _SERVICE_ACCOUNT / "token"
    if not host or not port or not token.exists():
        raise KubeconfigError(
            "no configuration has been provided; name a file with --kubeconfig, set KUBECONFIG, or start a cluster "
            "with cathedra up"
        )
    return Target(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        name="in-cluster",
        namespace=_file("namespace", _SERVICE_ACCOUNT).decode().strip() or "default",
        certificate_authority=_file("ca.crt", _SERVICE_ACCOUNT),
        token=token.read_text(encoding="utf-8").strip(),
        token_file=token,
    )


# Writing.


def _merge_path(path: str | Path | None, environment: Mapping[str, str]) -> Path:
    if path is not None:
        return Path(path)
    listed = [Path(part) for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return next((file for file in listed if file.exists()), listed[-1])
    return _home(environment) / ".kube" / "config"


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _cluster_entry(target: Target) -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": target.server}
    if target.certificate_authority:
        cluster["certificate-authority-data"] = _encoded(target.certificate_authority)
    if target.tls_server_name:
        cluster["tls-server-name"] = target.tls_server_name
    if target.insecure_skip_tls_verify:
        cluster["insecure-skip-tls-verify"] = True
    cluster["extensions"] = [_mark(target)]
    return {"name": target.name, "cluster": cluster}


def _user_entry(target: Target) -> dict[str, Any]:
    user: dict[str, Any] = {}
    if target.client_certificate:
        user["client-certificate-data"] = _encoded(target.client_certificate)
        user["client-key-data"] = _encoded(target.client_key)
    if target.token:
        user["token"] = target.token
    if target.username:
        user |= {"username": target.username, "password": target.password}
    return {"name": target.name, "user": user}


def _context_entry(target: Target) -> dict[str, Any]:
    context = {"cluster": target.name, "user": target.name}
    if target.namespace != "default":
        context["namespace"] = target.namespace
    return {"name": target.name, "context": context}


def _with_target(path: Path, document: dict[str, Any], target: Target) -> dict[str, Any]:
    sections = {
        "clusters": _cluster_entry(target),
        "users": _user_entry(target),
        "contexts": _context_entry(target),
    }
    existing = {section: _entry(document, section, target.name) for section in sections}
    # The cluster carries our mark. Without it, the context belongs to something else and is never overwritten.
    if any(existing.values()) and not _is_ours(existing["clusters"]):
        raise ContextTaken(path, target.name)
    own = {entry.get("name", ""): entry for entry in document.get("clusters") or () if _is_of(entry, target)}
    if existing["clusters"] is not None:
        own[target.name] = existing["clusters"]
    current = document.get("current-context") or ""
    former = former_context_of(own[current]["cluster"]) if current in own else current
    sections["clusters"]["cluster"]["extensions"] = [_mark(target, former)]
    # A cluster that had another name before would leave a second context behind that no command removes.
    merged = _without(document, own.keys() - {target.name})
    for section, entry in sections.items():
        others = [other for other in merged.get(section) or () if other.get("name") != target.name]
        merged[section] = [*others, entry]
    merged["current-context"] = target.name
    return merged


def _without(document: Mapping[str, Any], names: Container[str]) -> dict[str, Any]:
    """``document`` without the clusters, users and contexts of these names."""
    rest = dict(document)
    for section in ("clusters", "users", "contexts"):
        if section in rest:
            rest[section] = [entry for entry in rest[section] or () if entry.get("name") not in names]
    return rest


def _mark(target: Target, former: str = "") -> dict[str, Any]:
    return mark(data_dir=target.data_dir, former_context=former, servers=target.further)


def _is_of(entry: Mapping[str, Any], target: Target) -> bool:
    """Return True if `merge` made ``entry`` for the cluster of ``target``."""
    cluster = entry.get("cluster") or {}
    if not _is_ours(entry):
        return False
    if recorded := data_dir_of(cluster):
        return recorded == target.data_dir
    return (entry.get("name"), cluster.get("server")) == (target.name, target.server)


def _entry(document: Mapping[str, Any], section: str, name: str) -> dict[str, Any] | None:
    return next((entry for entry in document.get(section) or () if entry.get("name") == name), None)


def _is_ours(cluster: Mapping[str, Any] | None) -> bool:
    return is_marked((cluster or {}).get("cluster") or {})


def _back_up(path: Path) -> Path:
    """Keep the file as it was before it was first changed here, and as it was before this change."""
    first = path.with_name(path.name + ".cathedra-backup")
    # The first backup is never replaced: it is the only copy without anything of ours.
    backup = first.with_name(first.name + ".latest") if first.exists() else first
    _write_bytes(backup, path.read_bytes())
    return backup


def _write_atomically(path: Path, document: Mapping[str, Any]) -> None:
    _write_bytes(path, write_yaml(dict(document), sort_keys=False))


def _write_bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durable(path, content)
