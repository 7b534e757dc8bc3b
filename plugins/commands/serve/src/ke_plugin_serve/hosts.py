"""Check the host that a request names: only this machine, or the hosts that the user allows."""

from __future__ import annotations

import ipaddress
import re

NAME = "localhost"
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches ``host``: a name or an address. Only IPv6 may have brackets."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return host.lower() == NAME
    return address.is_loopback and (address.version == 6 or bare == host)


def host_name(header: str) -> str:
    """Return the name or address in a ``Host`` header, without the port. Empty if the header is malformed."""
    found = HOST.fullmatch(header)
    return found[1] if found else ""
