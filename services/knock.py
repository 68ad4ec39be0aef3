"""Whether somebody takes TCP connections at an address: how services see that the head of a Ray cluster is there."""

from __future__ import annotations

import socket


def refusal(address: str, patience_s: float) -> str | None:
    """Why nobody takes a connection at `HOST:PORT`; None where somebody does, and where it is no such address."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return None
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=patience_s):
            return None
    except OSError as error:
        return error.strerror or str(error)
