"""Address of an etcd cluster: ``etcd://HOST:PORT[,HOST:PORT…][?cafile=…&certfile=…&keyfile=…&prefix=…]``.

The names of the options are those of kube-apiserver's flags (``--etcd-cafile`` and so on).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote

_SCHEME: Final = "etcd://"
_DEFAULT_PORT: Final = 2379
_OPTIONS: Final = ("cafile", "certfile", "keyfile", "prefix")


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """Endpoints, the files of a TLS client, and the prefix of all keys."""

    endpoints: tuple[str, ...]
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    prefix: str = "/registry"

    @property
    def tls(self) -> bool:
        """Return True if connections are encrypted."""
        return self.ca_file is not None or self.certificate_file is not None

    @classmethod
    def parse(cls, text: str) -> EtcdAddress:
        """Parse the value of ``--store``.

        Raises:
            ValueError: it is no address; the text names the problem.
        """
        if not text.startswith(_SCHEME):
            raise ValueError(f"{text!r} does not begin with {_SCHEME}")
        hosts, _, query = text.removeprefix(_SCHEME).partition("?")
        endpoints = tuple(_endpoint(host, text) for host in hosts.rstrip("/").split(","))
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        unknown = sorted(options.keys() - set(_OPTIONS))
        if unknown:
            raise ValueError(f"{text!r}: unknown option {unknown[0]!r}; there are {', '.join(_OPTIONS)}")
        files = {name: Path(options[name]) for name in _OPTIONS[:3] if name in options}
        if ("certfile" in files) != ("keyfile" in files):
            raise ValueError(f"{text!r}: certfile and keyfile go together")
        missing = [str(file) for file in files.values() if not file.is_file()]
        if missing:
            raise ValueError(f"{text!r}: there is no file {missing[0]}")
        prefix = "/" + options.get("prefix", "/registry").strip("/")
        return cls(endpoints, files.get("cafile"), files.get("certfile"), files.get("keyfile"), prefix)


def _endpoint(host: str, text: str) -> str:
    host = unquote(host.strip())
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(_DEFAULT_PORT)
    if not name or "/" in name or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r}: {host!r} is not HOST:PORT")
    return f"{name}:{port}"
