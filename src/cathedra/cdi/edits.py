"""Application of CDI edits to an OCI runtime spec.

docs/spec/node.md §20. `apply_edits` is a pure function from one runtime spec (plain JSON values) to another. The
host's device nodes are passed in as a `HostNodes`.
"""

from __future__ import annotations

import copy
import os
import stat
from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec

from cathedra.cdi.spec import ContainerEdits, DeviceNode, Hook, InjectionFailed, IntelRdt, Mount


class HostNode(msgspec.Struct, frozen=True):
    """A device node as the host has it: type b, c or p, and mode bits without the file type."""

    type: str
    major: int
    minor: int
    file_mode: int


class HostNodes(Protocol):
    """Lookup of device nodes of the host."""

    def find(self, path: str) -> HostNode | None:
        """Return the node at ``path``, symbolic links not followed, or None if there is none or it is no device."""


class RealHostNodes:
    """The host that this process runs on."""

    def find(self, path: str) -> HostNode | None:
        """Return the node at ``path`` by lstat."""
        try:
            found = os.lstat(path)
        except OSError:
            return None
        for test, letter in ((stat.S_ISBLK, "b"), (stat.S_ISCHR, "c"), (stat.S_ISFIFO, "p")):
            if test(found.st_mode):
                return HostNode(letter, os.major(found.st_rdev), os.minor(found.st_rdev), stat.S_IMODE(found.st_mode))
        return None


def apply_edits(oci: dict[str, Any], edits: ContainerEdits, host: HostNodes) -> dict[str, Any]:
    """Return a copy of the runtime spec ``oci`` with ``edits`` made.

    Raises:
        InjectionFailed: a device node has to be completed from the host and the host has no such device.
    """
    # A copy: if a later edit fails, the caller still has the spec without half of the changes.
    out = copy.deepcopy(oci)
    process = out.setdefault("process", {})
    linux = out.setdefault("linux", {})
    if edits.env:
        process["env"] = _with_env(process.get("env", []), edits.env)
    for node in edits.device_nodes:
        _add_device(linux, process, _completed(node, host))
    for net in edits.net_devices:
        linux.setdefault("netDevices", {})[net.host_interface_name] = {"name": net.name}
    if edits.mounts:
        out["mounts"] = _with_mounts(out.get("mounts", []), edits.mounts, _has_user_namespace(linux))
    for hook in edits.hooks:
        out.setdefault("hooks", {}).setdefault(hook.hook_name, []).append(_oci_hook(hook))
    if edits.intel_rdt is not None:
        linux["intelRdt"] = _oci_rdt(edits.intel_rdt)
    if edits.additional_gids:
        user = process.setdefault("user", {})
        user["additionalGids"] = _with_gids(user.get("additionalGids", []), edits.additional_gids)
    return out


def _with_env(present: list[str], wanted: Iterable[str]) -> list[str]:
    result = list(present)
    where = {variable.partition("=")[0]: index for index, variable in enumerate(result)}
    for variable in wanted:
        name = variable.partition("=")[0]
        if name in where:
            # Replaced in place: programs read the first of two variables, so appending would change nothing.
            result[where[name]] = variable
        else:
            where[name] = len(result)
            result.append(variable)
    return result


_NOT_ENOUGH: Final = "not a device node, and its type and major number are not given"


def _completed(node: DeviceNode, host: HostNodes) -> dict[str, Any]:
    path = node.host_path or node.path
    # Complete entries are taken as written: the node may not exist on the host at all.
    minimal = node.type == "p" or (node.type != "" and node.major != 0)
    found = host.find(path)
    if found is None and not minimal:
        raise InjectionFailed(f'failed to stat CDI host device "{path}": {_NOT_ENOUGH}')
    type_, major, minor = node.type, node.major, node.minor
    if found is not None and not minimal:
        if type_ and type_ != found.type and not (type_ == "u" and found.type == "c"):
            raise InjectionFailed(f'CDI device ("{node.path}", "{path}"), host type mismatch ({type_}, {found.type})')
        type_ = type_ or found.type
        if major == 0 and type_ != "p":
            major, minor = found.major, found.minor
    done: dict[str, Any] = {"path": node.path, "type": type_}
    if type_ != "p":
        done |= {"major": major, "minor": minor}
    mode = node.file_mode if node.file_mode is not None else (found.file_mode if found else None)
    if mode is not None:
        done["fileMode"] = mode
    if node.uid is not None:
        done["uid"] = node.uid
    if node.gid is not None:
        done["gid"] = node.gid
    done["permissions"] = node.permissions
    return done


def _add_device(linux: dict[str, Any], process: dict[str, Any], node: dict[str, Any]) -> None:
    permissions = node.pop("permissions")
    user = process.get("user", {})
    for identity in ("uid", "gid"):
        if identity not in node and user.get(identity, 0) > 0:
            node[identity] = user[identity]
    # Two entries of one path would make the runtime fail.
    others = [device for device in linux.get("devices", []) if device.get("path") != node["path"]]
    linux["devices"] = [*others, node]
    if node["type"] in {"b", "c"}:
        # The rule is needed besides the node: the device cgroup denies everything that is not listed.
        access = "" if permissions == "none" else permissions or "rwm"
        rule = {"allow": True, "type": node["type"], "major": node["major"], "minor": node["minor"], "access": access}
        linux.setdefault("resources", {}).setdefault("devices", []).append(rule)


def _has_user_namespace(linux: dict[str, Any]) -> bool:
    return any(namespace.get("type") == "user" for namespace in linux.get("namespaces", []))


def _with_mounts(present: list[dict[str, Any]], wanted: Iterable[Mount], user_namespace: bool) -> list[dict[str, Any]]:
    result = list(present)
    for mount in wanted:
        # A later mount replaces an earlier one of the same place, as in the reference library.
        result = [other for other in result if other.get("destination") != mount.container_path]
        result.append(_oci_mount(mount, user_namespace))
    # Stable: of mounts at the same depth the earlier one stays first.
    return sorted(result, key=lambda mount: _depth(mount["destination"]))


def _depth(destination: str) -> int:
    return os.path.normpath(destination).count("/")


def _oci_mount(mount: Mount, user_namespace: bool) -> dict[str, Any]:
    options = list(mount.options)
    if user_namespace and not {"idmap", "ridmap"} & set(options):
        if "rbind" in options:
            options.append("ridmap")
        elif "bind" in options:
            options.append("idmap")
    done: dict[str, Any] = {"destination": mount.container_path, "source": mount.host_path}
    if mount.type:
        done["type"] = mount.type
    if options:
        done["options"] = options
    return done


def _oci_hook(hook: Hook) -> dict[str, Any]:
    done: dict[str, Any] = {"path": hook.path}
    if hook.args:
        done["args"] = list(hook.args)
    if hook.env:
        done["env"] = list(hook.env)
    if hook.timeout is not None:
        done["timeout"] = hook.timeout
    return done


def _oci_rdt(rdt: IntelRdt) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "closID": rdt.clos_id,
        "l3CacheSchema": rdt.l3_cache_schema,
        "memBwSchema": rdt.mem_bw_schema,
        "schemata": list(rdt.schemata),
        "enableMonitoring": rdt.enable_monitoring,
    }
    return {name: value for name, value in fields.items() if value}


def _with_gids(present: list[int], wanted: Iterable[int]) -> list[int]:
    return list(dict.fromkeys([*present, *(gid for gid in wanted if gid != 0)]))
