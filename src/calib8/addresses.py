"""Addresses such as ``s3://bucket/a.tar``: told from paths, and shown without secrets."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(?=[^/])")
"""``https://host…``; a drive (``C:/``) has one letter."""

_USER: Final = re.compile(r"(?<=://)[^/\s'\"]*@")
_QUERY: Final = re.compile(r"([?&;][^=&;\s]*)=[^&;\s'\"]*")


def is_address(text: str) -> bool:
    """Whether a text begins with a scheme and a host, also as a ``Path`` has it, with one slash."""
    return _ADDRESS.match(text) is not None


def with_two_slashes(address: str) -> str:
    """``s3:/bucket/a``, as a ``Path`` has it → ``s3://bucket/a``."""
    scheme, _, rest = address.partition(":")
    if rest.startswith("//"):
        return address
    return f"{scheme}:{'//' if scheme == 'file' else '/'}{rest}"


def scheme_of(address: str) -> str:
    """``S3://bucket`` → ``s3``; empty for what is no address."""
    found = _ADDRESS.match(address)
    return found[1].lower() if found else ""


def without_secrets(text: str) -> str:
    """Addresses in a text without names, passwords and values of queries: ``http://***@host?key=***``."""
    return _QUERY.sub(r"\1=***", _USER.sub("***@", text)) if "://" in text else text


def cleaned(text: str, address: str) -> str:
    """A text of other software, on one line, that may repeat an address: without its secrets."""
    for secret in _secrets(address):
        text = text.replace(secret, "***")
    return " ".join(without_secrets(text).split())


def _secrets(address: str) -> list[str]:
    """What of an address must not be shown, as it is written and as it is meant; longest first."""
    found = re.search(r"(?<=://)([^/\s]*)@", address)
    words = [] if found is None else [found[1], found[1].partition(":")[2]]
    words += [part.partition("=")[2] for part in re.split(r"[?&;]", address)[1:]]
    both = {word for text in words for word in (text, unquote(text)) if len(word) > 2}
    return sorted(both, key=len, reverse=True)
