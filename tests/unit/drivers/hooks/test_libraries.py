"""Links of mounted libraries, and the linker's cache, in real containers too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cathedra.drivers.hooks.libraries import link_libraries, root_of, soname
from cathedra.drivers.hooks.state import ContainerState, HookError
from tests.requirements import program, root

FOLDER = "/opt/gpu/lib64"
UNIFIED = "/sys/fs/cgroup/unified"


def library(path: Path, name: str) -> Path:
    """A small library that programs load as ``name``."""
    program("gcc")
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text("int answer(void) { return 42; }")
    subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", path, source], check=True)
    source.unlink()
    return path


def test_links_have_the_librarys_own_name(tmp_path: Path) -> None:
    cuda = library(tmp_path / "libcuda.so.580.1.2", "libcuda.so.1")
    other = library(tmp_path / "libnvidia-ml.so.580.1.2", "libnvidia-ml.so.1")
    assert [soname(cuda), soname(other)] == ["libcuda.so.1", "libnvidia-ml.so.1"]
    (tmp_path / "libnvidia-ml.so.1").symlink_to("the image's own")
    made = link_libraries([cuda, other, tmp_path / "missing.so.1"])
    assert {path.name: os.readlink(path) for path in made} == {
        "libcuda.so.1": "libcuda.so.580.1.2",
        "libcuda.so": "libcuda.so.1",
    }
    assert link_libraries([cuda, other]) == []


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(100), b"#!/bin/sh\n" * 20])
def test_a_file_that_is_no_library_has_no_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    assert soname(tmp_path / "x") == ""


def test_a_bundle_without_a_root_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(HookError, match=r"config\.json"):
        root_of(ContainerState(1, tmp_path))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A container without links or cache, whose program loads libcuda by its name."""
    root()
    rootfs = tmp_path / "rootfs"
    for folder in ("etc", "proc", "dev", FOLDER.lstrip("/"), "lib64", "usr/lib"):
        (rootfs / folder).mkdir(parents=True)
    source = tmp_path / "main.c"
    source.write_text('#include <dlfcn.h>\nint main(void) { return dlopen("libcuda.so.1", RTLD_NOW) ? 0 : 3; }')
    program("gcc")
    subprocess.run(["gcc", "-o", rootfs / "main", source, "-ldl"], check=True)
    listed = subprocess.run(["ldd", rootfs / "main"], check=True, capture_output=True, text=True).stdout
    for word in listed.split():
        if word.startswith("/"):
            (rootfs / word.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, rootfs / word.lstrip("/"))
    (rootfs / "etc/ld.so.conf").write_text("")
    host = library(tmp_path / "libcuda.so.580.1.2", "libcuda.so.1")
    inside = f"{FOLDER}/{host.name}"
    (rootfs / inside.lstrip("/")).touch()
    hook = {
        "path": sys.executable,
        "args": [sys.executable, "-m", "cathedra.drivers.hooks.libraries", inside],
        "env": [f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
    }
    config = {
        "ociVersion": "1.0.2",
        "process": {"args": ["/main"], "cwd": "/", "env": ["PATH=/"], "user": {"uid": 0, "gid": 0}},
        "root": {"path": "rootfs"},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": inside, "type": "bind", "source": str(host), "options": ["bind", "ro"]},
        ],
        "hooks": {"createContainer": [hook]},
        "linux": {
            "cgroupsPath": f"/libraries-{os.getpid()}",
            "namespaces": [{"type": "pid"}, {"type": "mount"}],
        },
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def started(bundle: Path, runtime: str) -> subprocess.CompletedProcess[str]:
    name = f"libraries-{os.getpid()}-{runtime}"
    command = [runtime, "--root", str(bundle / "state"), "run", "--bundle", str(bundle), name]
    if os.path.ismount(UNIFIED):
        # crun refuses a machine with cgroups of both versions. As the node's shim does, the second one is unmounted in
        # a mount namespace of the command's own.
        command = ["unshare", "--mount", "sh", "-c", f'umount {UNIFIED} && exec "$@"', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.parametrize("runtime", ["crun", "runc"])
def test_a_program_in_a_container_finds_the_library_by_its_name(bundle: Path, runtime: str) -> None:
    program(runtime)
    done = started(bundle, runtime)
    assert done.returncode == 0, done.stderr
    links = bundle / "rootfs" / FOLDER.lstrip("/")
    assert os.readlink(links / "libcuda.so.1") == "libcuda.so.580.1.2"


def test_links_of_the_image_never_lead_to_the_machines_own_files(bundle: Path, tmp_path: Path) -> None:
    """The folder of the library is a link to a directory of the machine, where the hook must make nothing."""
    program("runc")
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = bundle / "rootfs" / FOLDER.lstrip("/")
    moved = bundle / "rootfs" / str(outside).lstrip("/")
    moved.parent.mkdir(parents=True)
    inside.rename(moved)
    inside.symlink_to(outside)
    assert started(bundle, "runc").returncode == 0
    assert list(outside.iterdir()) == []
    assert (moved / "libcuda.so.1").is_symlink()


def test_without_the_hook_the_program_does_not_find_it(bundle: Path) -> None:
    program("runc")
    config = json.loads((bundle / "config.json").read_text())
    del config["hooks"]
    (bundle / "config.json").write_text(json.dumps(config))
    done = started(bundle, "runc")
    assert done.returncode == 3, done.stderr
