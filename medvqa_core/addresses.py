"""Decides which machine an address names. An address that two parsers could read differently is not this machine."""

import re
import socket
from ipaddress import ip_address

# Optional user name, a literal address or `localhost`, optional port. Nothing else is interpreted.
_LOCAL = re.compile(
    r"https?://(?:[^/?#@\\\s\[\]]*@)?(?P<host>localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?(?:[/?#][^\\\s]*)?",
    re.ASCII | re.IGNORECASE,
)


def is_loopback(endpoint: str) -> bool:
    """Whether a client that ignores proxies connects to this machine when given `endpoint`.

    The name `localhost` is resolved, because a hosts file may point it elsewhere. Clients must ignore proxy variables
    and redirects, and can check their connection with `is_loopback_peer`.
    """
    match = _LOCAL.fullmatch(endpoint)
    if match is None:
        return False
    host = match["host"].strip("[]").lower()
    return all(map(is_loopback_peer, _resolve(host))) if host == "localhost" else is_loopback_peer(host)


def is_loopback_peer(address: str) -> bool:
    """Whether a connected socket's peer (`getpeername()[0]`) is this machine."""
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def parse_host(endpoint: str) -> str:
    """The host and port of an address without user name and password, for messages only."""
    authority = re.split(r"[/?#\\\s]", endpoint.partition("://")[2] or endpoint, maxsplit=1)[0]
    return authority.rpartition("@")[2]


def _resolve(host: str) -> list[str]:
    """The addresses of `host`. A name that cannot be resolved counts as another machine."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ["unknown"]
    return [str(address[0]) for *_, address in found]
