"""Sockets that connect to this machine only. The resolved address is checked, not the URL."""

import socket

from medvqa_core.addresses import is_loopback_peer
from medvqa_core.errors import GovernanceError

AddressInfo = tuple[int, int, int, str, tuple]  # as in socket.getaddrinfo


def loopback_socket(info: AddressInfo) -> socket.socket:
    """A `socket_factory` for aiohttp. Raises GovernanceError for other machines."""
    family, kind, protocol, _, address = info
    if not is_loopback_peer(str(address[0])):
        raise GovernanceError(
            f"{address[0]} is not this machine; credentialed texts are only sent to 127.0.0.1 or [::1], or with an "
            "attestation"
        )
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    return made
