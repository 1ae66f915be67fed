"""Manifests that install a driver (``cathedra driver-manifest``), and the files of a new one (``driver-new``).

Account, role, policy, device class, and a DaemonSet of ``cathedra driver --module MODULE:DRIVER``; for devices of a
fabric also a Deployment of ``cathedra driver-fabric MODULE:DRIVER`` (docs/spec/driver-sdk.md §14 and §17.7).
The templates in ``scaffold`` are a driver, its tests, an example pod, an image and a README.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any, Final

from cathedra.api import resource
from cathedra.api.core import apps_v1, core_v1
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.decoding.yaml import write_yaml
from cathedra.api.formats import dns_subdomain
from cathedra.api.struct import to_dict
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.identity.permissions import controller_account, driver_objects, fabric_objects

_KUBELET: Final = PurePosixPath("/var/lib/kubelet")
_CDI: Final = "/var/run/cdi"
_PORT: Final = 51515
"""Port of /metrics, /livez and /readyz, in the pod's own network."""
_LABEL: Final = "app.kubernetes.io/name"


def driver_manifest(driver: str, target: str, *, image: str, namespace: str) -> bytes:
    """Return YAML documents that install the driver ``target`` (``MODULE:DRIVER``), named ``driver``, from ``image``.

    The image has the module in its working directory and ``cathedra`` on its path.
    """
    documents = [_plain(ref.api_version, ref.kind, obj) for ref, obj in driver_objects(driver, namespace)]
    documents += [_plain("resource.k8s.io/v1", "DeviceClass", _device_class(driver))]
    documents += [_plain("apps/v1", "DaemonSet", _daemon_set(driver, target, image, namespace))]
    space = _plain("v1", "Namespace", core_v1.Namespace(metadata=ObjectMeta(name=namespace)))
    return b"---\n".join(write_yaml(one, sort_keys=False) for one in (space, *documents))


def fabric_manifest(driver: str, target: str, *, image: str, namespace: str) -> bytes:
    """Return the same, and the controller of the fabric: two instances, of which one leads."""
    documents = [_plain(ref.api_version, ref.kind, obj) for ref, obj in fabric_objects(driver, namespace)]
    documents += [_plain("apps/v1", "Deployment", _deployment(driver, target, image, namespace))]
    nodes = driver_manifest(driver, target, image=image, namespace=namespace)
    return b"---\n".join((nodes, *(write_yaml(one, sort_keys=False) for one in documents)))


def _plain(api_version: str, kind: str, obj: Any) -> dict[str, Any]:
    fields = {name: value for name, value in to_dict(obj).items() if name not in ("apiVersion", "kind", "status")}
    return {"apiVersion": api_version, "kind": kind, **_without_absent(fields)}


def _without_absent(value: Any) -> Any:
    """Without what a client may leave out: nulls and empty objects, as creation times and resources have them."""
    if isinstance(value, dict):
        inner = {name: _without_absent(one) for name, one in value.items()}
        return {name: one for name, one in inner.items() if one is not None and one != {}}
    return [_without_absent(one) for one in value] if isinstance(value, list) else value


def _device_class(driver: str) -> resource.DeviceClass:
    expression = resource.CELDeviceSelector(expression=f"device.driver == '{driver}'")
    spec = resource.DeviceClassSpec(selectors=(resource.DeviceSelector(cel=expression),))
    return resource.DeviceClass(metadata=ObjectMeta(name=driver), spec=spec)


def _daemon_set(driver: str, target: str, image: str, namespace: str) -> apps_v1.DaemonSet:
    labels = {_LABEL: driver}
    # The newer instance comes before the older one goes, so that claims are prepared all the time.
    rolling = apps_v1.RollingUpdateDaemonSet(max_surge=1, max_unavailable=0)
    return apps_v1.DaemonSet(
        metadata=ObjectMeta(name=driver, namespace=namespace, labels=labels),
        spec=apps_v1.DaemonSetSpec(
            selector=LabelSelector(match_labels=labels),
            update_strategy=apps_v1.DaemonSetUpdateStrategy(type="RollingUpdate", rolling_update=rolling),
            template=core_v1.PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=_pod(driver, target, image)),
        ),
    )


def _deployment(driver: str, target: str, image: str, namespace: str) -> apps_v1.Deployment:
    name = controller_account(driver)
    labels = {_LABEL: name}
    container = core_v1.Container(
        name="controller",
        image=image,
        command=("cathedra", "driver-fabric"),
        args=(
            target,
            f"--leader-elect-resource-namespace={namespace}",
            f"--owner-class={driver}",
            f"--http-endpoint=0.0.0.0:{_PORT}",
        ),
        ports=(core_v1.ContainerPort(name="health", container_port=_PORT, protocol="TCP"),),
        liveness_probe=_probe("/livez"),
        readiness_probe=_probe("/readyz"),
    )
    pod = core_v1.PodSpec(
        service_account_name=name, priority_class_name="system-cluster-critical", containers=(container,)
    )
    return apps_v1.Deployment(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=labels),
        spec=apps_v1.DeploymentSpec(
            replicas=2,
            selector=LabelSelector(match_labels=labels),
            template=core_v1.PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=pod),
        ),
    )


def _pod(driver: str, target: str, image: str) -> core_v1.PodSpec:
    directories = {
        "registry": str(_KUBELET / "plugins_registry"),
        "plugins": str(_KUBELET / "plugins"),
        "cdi": _CDI,
    }
    container = core_v1.Container(
        name="driver",
        image=image,
        command=("cathedra", "driver"),
        args=(
            f"--module={target}",
            "--node-name=$(NODE_NAME)",
            "--pod-uid=$(POD_UID)",
            f"--root-dir={_KUBELET}",
            f"--cdi-dir={_CDI}",
            f"--http-endpoint=0.0.0.0:{_PORT}",
        ),
        env=tuple(_environment()),
        ports=(core_v1.ContainerPort(name="health", container_port=_PORT, protocol="TCP"),),
        liveness_probe=_probe("/livez"),
        readiness_probe=_probe("/readyz"),
        security_context=core_v1.SecurityContext(privileged=True),
        volume_mounts=tuple(core_v1.VolumeMount(name=name, mount_path=path) for name, path in directories.items()),
    )
    return core_v1.PodSpec(
        service_account_name=driver,
        priority_class_name="system-node-critical",
        containers=(container,),
        tolerations=(core_v1.Toleration(operator="Exists"),),
        volumes=tuple(
            core_v1.Volume(name=name, host_path=core_v1.HostPathVolumeSource(path=path, type="DirectoryOrCreate"))
            for name, path in directories.items()
        ),
    )


def _environment() -> Iterator[core_v1.EnvVar]:
    for name, path in (("NODE_NAME", "spec.nodeName"), ("POD_UID", "metadata.uid")):
        source = core_v1.EnvVarSource(field_ref=core_v1.ObjectFieldSelector(field_path=path))
        yield core_v1.EnvVar(name=name, value_from=source)


def _probe(path: str) -> core_v1.Probe:
    return core_v1.Probe(http_get=core_v1.HTTPGetAction(path=path, port=_PORT, scheme="HTTP"))


_TEMPLATES: Final = Path(__file__).with_name("scaffold")
_LONGEST: Final = 63
_NAMESPACE: Final = "dra-drivers"


def scaffold_files(name: str) -> dict[str, str]:
    """Return file name → content of a new driver ``name``: ``lamp.example.com``, or for a start ``lamp``.

    Raises:
        InvalidOption: ``name`` is no name of a driver, or its first part cannot be the name of a Python module.
    """
    name = name if "." in name else f"{name}.example.com"
    if len(name) > _LONGEST or dns_subdomain(name):
        raise InvalidOption(
            f"{name!r} is no name of a driver: it must be a DNS subdomain in a domain that you own, of at most "
            f"{_LONGEST} characters, as lamp.example.com"
        )
    word = name.partition(".")[0]
    module = word.replace("-", "_")
    if not module.isidentifier() or keyword.iskeyword(module) or module in {"cathedra", *sys.stdlib_module_names}:
        raise InvalidOption(
            f"{name!r}: the driver's module would be {module}.py, which Python cannot import; choose another first part"
        )
    values = {
        "driver": name,
        "word": word,
        "module": module,
        "project": f"{word}-driver",
        "kind": "".join(part.capitalize() for part in re.split(r"[-_]", word)),
        "variable": module.upper(),
    }
    files = {
        path.name.removesuffix(".txt").replace("driver.py", f"{module}.py"): Template(path.read_text()).substitute(
            values
        )
        for path in sorted(_TEMPLATES.glob("*.txt"))
    }
    target = f"{module}:{values['kind']}Driver"
    files["manifest.yaml"] = driver_manifest(name, target, image=f"{word}:0.1.0", namespace=_NAMESPACE).decode()
    return files
