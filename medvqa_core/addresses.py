"""Decides which machine an address names. An address that two parsers could read differently is not this machine."""

import re
import socket
from ipaddress import ip_address

from medvqa_core.errors import GovernanceError

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


def loopback_socket(info: tuple[int, int, int, str, tuple]) -> socket.socket:
    """A `socket_factory` for aiohttp. Raises GovernanceError if the resolved address is another machine."""
    family, kind, protocol, _, address = info
    if not is_loopback_peer(str(address[0])):
        raise GovernanceError(
            f"{address[0]} is not this machine; credentialed texts are only sent to 127.0.0.1 or [::1], or with an "
            "attestation"
        )
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    return made


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
