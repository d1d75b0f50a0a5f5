"""Whether a server answers at all, asked before the client of a tracker spends minutes on trying again."""

from __future__ import annotations

import socket
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

SECONDS: Final = 10.0
"""To wait for an answer."""

_PORTS: Final = {"http": 80, "https": 443}


def check_reachable(address: str) -> None:
    """Opens a connection to a server and closes it again; behind a proxy nothing is asked.

    Raises:
        OSError: there is none.
        ValueError: the address names no server.
    """
    parts = urlsplit(address)
    if not parts.hostname:
        raise ValueError("the address names no host")
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname):
        return
    port = parts.port or _PORTS.get(parts.scheme, 443)
    socket.create_connection((parts.hostname, port), timeout=SECONDS).close()
