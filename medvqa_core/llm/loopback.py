"""Sockets that reach this machine only: decided on the very address that is connected to, whatever a URL says."""

import socket

from medvqa_core.addresses import is_loopback_peer
from medvqa_core.errors import GovernanceError

AddressInfo = tuple[int, int, int, str, tuple]  # as socket.getaddrinfo gives them


def loopback_socket(info: AddressInfo) -> socket.socket:
    """A socket for `info`, as aiohttp's `socket_factory` makes them. Raises GovernanceError beyond loopback."""
    family, kind, protocol, _, address = info
    if not is_loopback_peer(str(address[0])):
        raise GovernanceError(
            f"{address[0]} is not this machine: credentialed texts go to servers on 127.0.0.1 or [::1] only, or with "
            "an attestation"
        )
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    return made
