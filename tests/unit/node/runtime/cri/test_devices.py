"""CDI devices: by name where the runtime resolves them, as edits where it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cathedra._proto import cri_v1_pb2 as api
from cathedra.cdi.errors import CDIError
from cathedra.node.runtime.cri.devices import DeviceEdits, resolve_devices

NAME = "example.com/gpu=0"


def directory(place: Path, edits: dict[str, Any], *, name: str = "0") -> Path:
    place.mkdir(exist_ok=True)
    device = {"name": name, "containerEdits": edits}
    document = {"cdiVersion": "1.1.0", "kind": "example.com/gpu", "devices": [device]}
    (place / f"{name}.json").write_text(json.dumps(document))
    return place


def test_without_devices_nothing_is_looked_at() -> None:
    assert resolve_devices((), (), ()) == DeviceEdits()


def test_edits_are_made_for_a_runtime_that_resolves_none(tmp_path: Path) -> None:
    edits = {
        "env": ["GPU=0", "EMPTY="],
        "deviceNodes": [{"path": "/dev/gpu0"}, {"path": "/dev/a", "hostPath": "/dev/null", "permissions": "r"}],
        "mounts": [{"hostPath": "/lib/gpu", "containerPath": "/opt/gpu", "options": ["ro", "rbind", "rslave"]}],
        "additionalGids": [0, 44],
    }
    found = resolve_devices((NAME,), (), (directory(tmp_path, edits),))
    assert found.environment == (("GPU", "0"), ("EMPTY", ""))
    assert found.devices == (
        api.Device(container_path="/dev/gpu0", host_path="/dev/gpu0", permissions="rwm"),
        api.Device(container_path="/dev/a", host_path="/dev/null", permissions="r"),
    )
    [mount] = found.mounts
    assert (mount.host_path, mount.container_path, mount.readonly) == ("/lib/gpu", "/opt/gpu", True)
    assert mount.propagation == api.PROPAGATION_HOST_TO_CONTAINER
    assert (found.groups, found.names, found.left_out) == ((44,), (), ())


def test_edits_that_have_no_place_in_the_description_are_named(tmp_path: Path) -> None:
    edits = {
        "hooks": [{"hookName": "createContainer", "path": "/bin/hook"}],
        "mounts": [{"hostPath": "tmpfs", "containerPath": "/scratch", "type": "tmpfs"}],
        "netDevices": [{"hostInterfaceName": "eth7", "name": "net1"}],
        "intelRdt": {"closID": "c"},
    }
    found = resolve_devices((NAME,), (), (directory(tmp_path, edits),))
    assert found.left_out == (
        "createContainer hook /bin/hook",
        "tmpfs mount /scratch",
        "network device net1",
        "intelRdt",
    )
    assert found.mounts == ()


def test_a_runtime_gets_the_names_of_its_own_directories_and_of_none(tmp_path: Path) -> None:
    theirs = directory(tmp_path / "theirs", {"env": ["A=1"]})
    ours = directory(tmp_path / "ours", {"env": ["B=1"]}, name="1")
    names = (NAME, "example.com/gpu=1", "example.com/gpu=9")
    found = resolve_devices(names, (theirs,), (theirs, ours))
    assert found.names == (NAME, "example.com/gpu=9")
    assert found.environment == (("B", "1"),)


def test_unknown_devices_are_an_error_where_nobody_else_will_say_so(tmp_path: Path) -> None:
    with pytest.raises(CDIError, match=r"unresolvable CDI devices example\.com/gpu=9"):
        resolve_devices(("example.com/gpu=9",), (), (tmp_path,))
