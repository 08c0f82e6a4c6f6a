"""Which machine an address names, decided strictly: what two readers could read differently is not this machine."""

import re
import socket
from ipaddress import ip_address

# one user name at most, a literal address or `localhost`, a port; whatever else stands there is not interpreted
_LOCAL = re.compile(
    r"https?://(?:[^/?#@\\\s\[\]]*@)?(?P<host>localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?(?:[/?#][^\\\s]*)?",
    re.ASCII | re.IGNORECASE,
)


def is_loopback(endpoint: str) -> bool:
    """Whether a client that is given `endpoint` connects to this machine, proxies aside.

    The name `localhost` is looked up: a hosts file may send it elsewhere. Clients have to leave proxy variables and
    redirects alone, and can check what they are connected to with `is_loopback_peer`.
    """
    match = _LOCAL.fullmatch(endpoint)
    if match is None:
        return False
    host = match["host"].strip("[]").lower()
    return all(map(is_loopback_peer, _look_up(host))) if host == "localhost" else is_loopback_peer(host)


def is_loopback_peer(address: str) -> bool:
    """Whether a connected socket's peer (`getpeername()[0]`) is this machine."""
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def parse_host(endpoint: str) -> str:
    """What an address names, without user name and password: for messages only."""
    authority = re.split(r"[/?#\\\s]", endpoint.partition("://")[2] or endpoint, maxsplit=1)[0]
    return authority.rpartition("@")[2]


def _look_up(host: str) -> list[str]:
    """Its addresses; a name without any cannot be connected to and counts as elsewhere."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ["unknown"]
    return [str(address[0]) for *_, address in found]
