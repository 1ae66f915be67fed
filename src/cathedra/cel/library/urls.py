"""URLs, with the rules of Go's net/url (docs/spec/cel.md §6.4)."""

from __future__ import annotations

import re
from typing import Final

from cathedra.api.boundedcache import cached_texts
from cathedra.api.goquote import go_quote
from cathedra.cel.library.costs import REWRITTEN
from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.values import CELValue, Failure, Opaque

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*", re.ASCII)
_ESCAPE: Final = re.compile(rb"%(?:[0-9a-fA-F]{2})?")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_PATH: Final = _UNRESERVED | frozenset(b"$&+,/:;=@")
_ENCODED_PATH: Final = _PATH | frozenset(b"!'()*[]%")
_HOST: Final = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"")
_USERINFO: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)


class URL(Opaque):
    """A parsed URL, in the parts that Go's library has."""

    __slots__ = ("escaped_path", "fragment", "host", "opaque", "query", "scheme", "text")
    type_name = "kubernetes.URL"

    def __init__(self, text: str, scheme: str, opaque: str, host: str, escaped_path: str, query: str) -> None:
        self.text, self.scheme, self.opaque, self.host = text, scheme, opaque, host
        self.escaped_path, self.query = escaped_path, query

    def same(self, other: CELValue) -> bool:
        """Return True if the texts are the same once written out."""
        return str(self) == str(other)

    def hostname(self) -> str:
        """Return the host without its port and brackets."""
        host = self.host
        if host.startswith("[") and "]" in host:
            return host[1 : host.index("]")]
        name, colon, port = host.rpartition(":")
        return name if colon and _digits(port) else host

    def port(self) -> str:
        """Return the port, if the host names one."""
        host = self.host
        rest = host[host.rindex("]") + 1 :] if "]" in host else host
        _, colon, port = rest.rpartition(":")
        return port if colon and _digits(port) else ""

    def __str__(self) -> str:
        return self.text


def _digits(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit())


class _Bad(ValueError):
    pass


def request_uri_error(text: str) -> str | None:
    """Return the errors of ``text`` as an absolute URI or path, in Go's words; None if nothing is."""
    try:
        _parse(text, via_request=True)
    except _Bad as error:
        return f"parse {go_quote(text)}: {error}"
    return None


@cached_texts(1024)
def _parsed(text: str) -> URL | Failure:
    wrong = request_uri_error(text)
    if wrong is None:
        try:
            plain, _, _fragment = text.partition("#")
            return _parse(plain, via_request=False, shown=text)
        except _Bad as error:
            wrong = f"parse {go_quote(text)}: {error}"
    return Failure(f"URL parse error during conversion from string: {wrong}")


def _parse(text: str, *, via_request: bool, shown: str | None = None) -> URL:
    if any(ord(c) < 0x20 or ord(c) == 0x7F for c in text):
        raise _Bad("net/url: invalid control character in URL")
    # Kubernetes parses twice: once as a request URI, whose rules are stricter, and once as a URL with fragment.
    if not text and via_request:
        raise _Bad("empty url")
    whole = shown if shown is not None else text
    if text == "*":
        return URL(whole, "", "", "", "*", "")
    scheme, rest = _scheme(text)
    query = ""
    # Go remembers a lone question mark as «force query»; the query is empty.
    if rest.endswith("?") and rest.count("?") == 1:
        rest = rest[:-1]
    elif "?" in rest:
        rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return URL(whole, scheme, rest, "", "", query)
        if via_request:
            raise _Bad("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _Bad("first path segment in URL cannot contain colon")
    host = ""
    if (scheme or (not via_request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        host = _authority(authority)
    return URL(whole, scheme, "", host, _path(rest), query)


def _scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise _Bad("missing protocol scheme")
    head, colon, rest = text.partition(":")
    if colon and _SCHEME.fullmatch(head):
        return head.lower(), rest
    return "", text


def _authority(authority: str) -> str:
    userinfo, at, host = authority.rpartition("@")
    if at:
        if not _USERINFO.fullmatch(userinfo):
            raise _Bad("net/url: invalid userinfo")
        _unescape(userinfo, "user")
    return _host(host)


def _host(host: str) -> str:
    if host.startswith("["):
        if "]" not in host:
            raise _Bad("missing ']' in host")
        end = host.rindex("]")
        port = host[end + 1 :]
        if not _PORT.fullmatch(port):
            raise _Bad(f"invalid port {go_quote(port)} after host")
        zone = host.find("%25")
        if 0 <= zone < end:
            return _unescape(host[:zone], "host") + _unescape(host[zone:end], "zone") + host[end:]
    elif ":" in host:
        port = host[host.rindex(":") :]
        if not _PORT.fullmatch(port):
            raise _Bad(f"invalid port {go_quote(port)} after host")
    return _unescape(host, "host")


def _unescape(text: str, where: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    for match in _ESCAPE.finditer(raw):
        if len(match.group()) < 3:
            shown = raw[match.start() : match.start() + 3].decode("utf-8", "replace")
            raise _Bad(f"invalid URL escape {go_quote(shown)}")
        if where == "host" and int(match.group()[1:3], 16) < 0x80 and match.group() != b"%25":
            raise _Bad(f"invalid URL escape {go_quote(match.group().decode())}")
    if where == "host":
        for byte in raw:
            if byte < 0x80 and byte not in _HOST and byte != 0x25:
                raise _Bad(f"invalid character {go_quote(chr(byte))} in host name")
    return _ESCAPE.sub(lambda m: bytes((int(m.group()[1:3], 16),)), raw).decode("utf-8", "replace")


def _path(path: str) -> str:
    raw = path.encode("utf-8", "surrogatepass")
    _unescape(path, "path")
    # A path that is escaped validly stays as it was written.
    if all(byte in _ENCODED_PATH for byte in raw):
        return path
    plain = _ESCAPE.sub(lambda m: bytes((int(m.group()[1:3], 16),)), raw)
    if plain == b"*":
        return "*"
    return "".join(chr(byte) if byte in _PATH else f"%{byte:02X}" for byte in plain)


def _query(url: URL) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        # Go has refused semicolons as separators since 1.17, and drops such pairs silently.
        if not pair or ";" in pair:
            continue
        key, _, value = pair.partition("=")
        try:
            key, value = (_unescape(part.replace("+", " "), "query") for part in (key, value))
        except _Bad:
            continue
        found.setdefault(key, []).append(value)
    return found


OVERLOADS: Final[Functions] = {
    "url": (declare("string_to_url: string -> URL", lambda text: _parsed(text), REWRITTEN),),
    "getScheme": (declare("url_get_scheme: URL. -> string", lambda url: url.scheme),),
    "getHost": (declare("url_get_host: URL. -> string", lambda url: url.host),),
    "getHostname": (declare("url_get_hostname: URL. -> string", lambda url: url.hostname()),),
    "getPort": (declare("url_get_port: URL. -> string", lambda url: url.port()),),
    "getEscapedPath": (declare("url_get_escaped_path: URL. -> string", lambda url: url.escaped_path),),
    "getQuery": (declare("url_get_query: URL. -> map(string, list(string))", _query),),
    "isURL": (declare("is_url_string: string -> bool", lambda text: request_uri_error(text) is None),),
}
