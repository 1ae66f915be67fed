"""The Containerfile: its image (make image) in containers, and its steps without a builder.

The steps are the wheel in an environment of its own, run by a user without rights where nothing can be written.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tools.image import IMAGE

from cathedra.cluster.data.datadir import DataDir
from tests.integration.conftest import Kubectl, RunningCluster
from tests.integration.test_parts_alone import CLAIMING, Parts, node_options
from tests.ports import free_port
from tests.requirements import image_root, program

ROOT = Path(__file__).parents[2]
READ_ONLY = "mount -o remount,ro,bind / && exec unshare --user --map-user=65534 --map-group=65534 "


def instructions() -> list[tuple[str, str]]:
    lines = (ROOT / "deploy" / "Containerfile").read_text().splitlines()
    words = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in words]


def test_the_image_is_built_in_stages_and_starts_without_root_and_shell() -> None:
    found = instructions()
    stages = [index for index, (word, _) in enumerate(found) if word == "FROM"]
    assert len(stages) == 2
    last = dict(found[stages[-1] :])
    assert "RUN" not in last, "the last stage would need a shell"
    assert last["USER"] == "65534:65534"
    assert last["ENTRYPOINT"] == '["cathedra"]'
    assert last["COPY"] == "--from=build /cathedra /cathedra"
    assert last["ENV"].startswith("PATH=/cathedra/bin:")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment of the build stage; dependencies come from the one that runs the tests."""
    made = tmp_path_factory.mktemp("image") / "cathedra"
    subprocess.run([sys.executable, "-m", "venv", str(made)], check=True)
    subprocess.run([made / "bin" / "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)], check=True)
    (packages,) = made.glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return made


def confined(environment: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = READ_ONLY + shlex.join([str(environment / "bin" / words[0]), *words[1:]])
    variables = {"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", command],
        env=variables,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_the_confinement_refuses_writes_and_root(environment: Path) -> None:
    program = "import os, cathedra; print(os.getuid(), cathedra.__file__); open('written', 'w')"
    done = confined(environment, "python", "-c", program)
    user, file = done.stdout.split()
    assert (user, Path(file).is_relative_to(environment)) == ("65534", True)
    assert "Read-only file system" in done.stderr


@pytest.mark.parametrize("part", ["scheduler", "controller-manager", "driver"])
def test_each_part_starts_there(environment: Path, part: str) -> None:
    done = confined(environment, "cathedra", part, "--help")
    assert done.returncode == 0, done.stderr
    assert f"usage: cathedra {part}" in done.stdout


# --- the built image


@dataclass(frozen=True)
class Image:
    """The image's root file system and configuration, for containers of runc."""

    root: Path
    config: dict[str, Any]

    def command(self, folder: Path, name: str, *words: str, user: int | None = None) -> list[str]:
        """The command that runs a container with a read-only root; only ``folder`` can be written.

        It has the network of the host, on which the parts find each other.
        """
        bundle = folder / f"bundle-{name}"
        bundle.mkdir()
        subprocess.run([program("runc"), "spec"], cwd=bundle, check=True)
        spec = json.loads((bundle / "config.json").read_text())
        own = int(self.config["User"].partition(":")[0])
        spec["root"] = {"path": str(self.root), "readonly": True}
        spec["process"].update(
            terminal=False,
            args=[*self.config["Entrypoint"], *words],
            env=self.config["Env"],
            user={"uid": own if user is None else user, "gid": own if user is None else user},
            capabilities={},
        )
        spec["mounts"].append(
            {"destination": str(folder), "source": str(folder), "type": "bind", "options": ["rbind", "rw"]}
        )
        spec["linux"]["namespaces"] = [one for one in spec["linux"]["namespaces"] if one["type"] != "network"]
        (bundle / "config.json").write_text(json.dumps(spec))
        return [program("runc"), "run", "--bundle", str(bundle), f"{folder.name}-{name}"]

    def run(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        command = self.command(folder, "once", *words)
        return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with image_root(IMAGE) as root:
        found = subprocess.run(["buildah", "inspect", "--type=image", IMAGE], capture_output=True, check=True)
        yield Image(root, json.loads(found.stdout)["OCIv1"]["config"])


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the image's user may write. Unix sockets leave no room for the long names of pytest's own."""
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        os.chown(name, 65534, 65534)
        Path(name).chmod(0o755)
        yield Path(name)


def test_the_image_has_no_shell_no_root_and_no_installer(image: Image, folder: Path) -> None:
    programs = {path.name for path in image.root.glob("**/bin/*")}
    assert "python3" in programs
    assert not programs & {"sh", "bash", "dash", "busybox", "pip", "apt-get"}
    own = Image(image.root, {**image.config, "Entrypoint": ["python3", "-c"]})
    done = own.run(folder, "import os, cathedra; print(os.getuid(), cathedra.__file__); open('/tmp/written', 'w')")
    assert done.stdout.split()[0] == "65534"
    assert done.stdout.split()[1].startswith("/cathedra/")
    assert "Read-only file system" in done.stderr


def enrolled(image: Image, folder: Path, node: str) -> Path:
    """The files of a node, made by the owner of the cluster's keys and given to root, the node agent's user."""
    done = image.run(folder, "enrol", f"--data-dir={folder}/data", f"--node-name={node}", f"--to={folder}/files")
    assert done.returncode == 0, done.stderr
    for path in (folder / "files", *(folder / "files").iterdir()):
        os.chown(path, 0, 0)
    return folder / "files"


def test_the_parts_are_a_cluster_as_containers_of_the_image(image: Image, folder: Path) -> None:
    """The driver's user is root, as in its DaemonSet; the node agent runs on the host."""
    with ExitStack() as stack:
        parts = Parts(folder, stack)

        def start(part: str, *options: str, user: int | None = None) -> None:
            parts.run_command(part, image.command(folder, part, part, *options, user=user))

        start("apiserver", f"--data-dir={folder}/data")
        parts.wait_for("apiserver", "export KUBECONFIG=")
        kubeconfig = f"--kubeconfig={folder}/data/kubeconfig"
        for part in ("controller-manager", "scheduler", "advisor"):
            start(part, kubeconfig, f"--secure-port={free_port()}")
            parts.wait_for(part, "health and metrics at")
        node = ("--node-name=n1", f"--root-dir={folder / 'n'}")
        parts.start("node", *node, *node_options(enrolled(image, folder, "n1")))
        parts.wait_for("node", "node n1 is Ready")
        # Root without capabilities reads no file of another user.
        shutil.copy(folder / "data" / "kubeconfig", folder / "driver.kubeconfig")
        start("driver", *node, f"--kubeconfig={folder}/driver.kubeconfig", "--gpus=1", user=0)
        parts.wait_for("driver", "published 1 device")
        kubectl = Kubectl(RunningCluster(DataDir(folder / "data"), ()))
        kubectl("apply", "-f", "-", stdin=CLAIMING)
        kubectl("wait", "pod/user", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
        assert "GPU_DEVICE" in kubectl("logs", "user")
        for part in ("driver", "advisor", "scheduler", "controller-manager"):
            assert parts.stop(part) == 0, parts.log(part)
