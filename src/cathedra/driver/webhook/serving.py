"""The webhook at work: a certificate of its own authority, a port, and the registration of both.

Instances behind one Service share the certificate in a Secret beside it, so that whichever is called is known to the
API server; a webhook outside of the cluster makes a new one at each start.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from cathedra.api.core.core_v1 import Secret
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.asgi.listener import Listener, TLSFiles, bind
from cathedra.certificates.authority import Authority
from cathedra.client.client import Client
from cathedra.client.resources import SECRETS
from cathedra.driver.driver import Driver
from cathedra.driver.errors import OptionError
from cathedra.driver.webhook.application import WebhookApplication
from cathedra.driver.webhook.registration import WebhookAddress, register

__all__ = ["serving_webhook"]

_FILES: Final = ("ca.crt", "tls.crt", "tls.key")


@asynccontextmanager
async def serving_webhook(
    driver: Driver, client: Client, address: WebhookAddress, *, listen: tuple[str, int]
) -> AsyncIterator[int]:
    """Serve while the body runs, and be registered; yields the port.

    Raises:
        OptionError: the driver declares no models of parameters, so there is nothing to judge.
        OSError: the port is in use.
        StatusError: the webhook may not be registered, or its Secret not be read.
    """
    if not driver.configs:
        raise OptionError(f"driver {driver.name} declares no configs, so every parameter is right")
    listening = bind(*listen)
    with tempfile.TemporaryDirectory(prefix="webhook-") as directory:
        files = await _certificate(client, driver.name, address)
        for name, content in files.items():
            (Path(directory) / name).write_bytes(content)
        authority, certificate, key = (Path(directory) / name for name in _FILES)
        app = WebhookApplication(driver.name, driver.configs)
        listener = Listener(app, listening, TLSFiles(certificate, key, authority))
        await listener.start()
        try:
            found = address if address.port else replace(address, port=listener.port)
            await register(client, driver.name, found, files["ca.crt"])
            yield listener.port
        finally:
            await listener.stop()


async def _certificate(client: Client, driver: str, address: WebhookAddress) -> dict[str, bytes]:
    """Authority, certificate and key, as files of a Secret of type kubernetes.io/tls have them."""
    now = client.clock.now()
    authority = Authority.make(now, f"{driver}-webhook")
    pair = authority.server(address.names, now, name=address.names[0])
    made = dict(zip(_FILES, (authority.pair.certificate, pair.certificate, pair.key), strict=True))
    if not address.service:
        return made
    namespace, name = address.service.split("/")
    secrets = client.resource(SECRETS, namespace)
    metadata = ObjectMeta(name=f"{name}-tls")
    try:
        await secrets.create(Secret(metadata=metadata, type="kubernetes.io/tls", data=made))
    except StatusError as error:
        if not error.is_already_exists:
            raise
        kept = (await secrets.get(metadata.name)).data
        if not set(_FILES) <= set(kept):
            lacking = ", ".join(sorted(set(_FILES) - set(kept)))
            raise OptionError(f"Secret {namespace}/{metadata.name} lacks {lacking}") from error
        return {file: bytes(kept[file]) for file in _FILES}
    return made
