"""Failures of connections in the words of Go's libraries, which operators of webhooks know and search for."""

from __future__ import annotations

import errno
import ssl
from typing import Any, Final

_UNKNOWN_AUTHORITY: Final = "x509: certificate signed by unknown authority"
_OUT_OF_TIME: Final = "x509: certificate has expired or is not yet valid"
_VERIFICATIONS: Final = {
    2: _UNKNOWN_AUTHORITY,
    9: _OUT_OF_TIME,
    10: _OUT_OF_TIME,
    18: _UNKNOWN_AUTHORITY,
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
    26: "x509: certificate specifies an incompatible key usage",
}
"""OpenSSL's code of a failed verification → text."""
_NAME_MISMATCH: Final = 62
_ADDRESS_MISMATCH: Final = 64
_ERRNOS: Final = {
    errno.ECONNREFUSED: "connect: connection refused",
    errno.ECONNRESET: "read: connection reset by peer",
    errno.EHOSTUNREACH: "connect: no route to host",
    errno.ENETUNREACH: "connect: network is unreachable",
    errno.ETIMEDOUT: "connect: connection timed out",
}
_REASONS: Final = {
    "HTTP_REQUEST": "http: server gave HTTP response to HTTPS client",
    "WRONG_VERSION_NUMBER": "http: server gave HTTP response to HTTPS client",
    "RECORD_LAYER_FAILURE": "http: server gave HTTP response to HTTPS client",
    "TLSV1_ALERT_UNKNOWN_CA": "remote error: tls: unknown certificate authority",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "remote error: tls: certificate required",
    "SSLV3_ALERT_BAD_CERTIFICATE": "remote error: tls: bad certificate",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "remote error: tls: handshake failure",
}


def network_text(error: BaseException) -> str:
    """Return Go's text of a failure, or Python's if Go has none."""
    host, port = getattr(error, "host", None), getattr(error, "port", None)
    cause = _cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: {_verification(cause, str(host or ''))}"
    if isinstance(cause, ssl.SSLError):
        return _REASONS.get(str(cause.reason), f"tls: {cause.reason or cause}")
    if type(error).__name__ == "ServerDisconnectedError":
        return "EOF"
    if type(error).__name__ == "ClientConnectorDNSError":
        return f"dial tcp: lookup {host}: no such host"
    if isinstance(cause, OSError):
        number = cause.errno or _refused(cause)
        if number in _ERRNOS:
            return f"dial tcp {host}:{port}: {_ERRNOS[number]}" if host is not None else _ERRNOS[number]
    return str(error) or type(error).__name__


def _cause(error: Any) -> BaseException:
    """Return the exception that the HTTP client wrapped."""
    for name in ("certificate_error", "os_error"):
        found = getattr(error, name, None)
        if isinstance(found, BaseException):
            return found
    inner: BaseException = error
    return inner


def _verification(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code == _NAME_MISMATCH:
        return f"x509: certificate is not valid for any names, but wanted to match {_wanted(error, host)}"
    if error.verify_code == _ADDRESS_MISMATCH:
        wanted = _wanted(error, host)
        return f"x509: cannot validate certificate for {wanted} because it doesn't contain any IP SANs"
    return _VERIFICATIONS.get(error.verify_code, f"x509: {error.verify_message}")


def _wanted(error: ssl.SSLCertVerificationError, host: str) -> str:
    """Return the name that was requested, which may differ from that of the connection."""
    _, quote, rest = error.verify_message.partition("'")
    return rest.partition("'")[0] if quote else host


def _refused(error: OSError) -> int | None:
    """Return ``ECONNREFUSED`` if the text of an error without a number reports it, else None.

    Asyncio joins the failures of all addresses of a name in one such error.
    """
    text = str(error)
    return errno.ECONNREFUSED if "Connect call failed" in text or "Connection refused" in text else None
