"""Words that open the owner's page and the metrics: made here, and kept in files that only their owner reads."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
from pathlib import Path

from dpquery.errors import DPQueryError

SHORTEST_TOKEN = 16  # characters


def token_of(path: Path | None) -> tuple[str, str]:
    """Returns the token of a file, or without one a new token, and what its owner is shown of it."""
    secret = new_token() if path is None else read_token(path)
    return secret, secret if path is None else f"(the word in {path})"


def new_token() -> str:
    """Returns a token that cannot be guessed."""
    return secrets.token_urlsafe(32)


def read_token(path: Path) -> str:
    """Returns the token of a file, which is made if it is missing.

    Raises:
        DPQueryError: It cannot be read or made, other users may read it, or what it holds is too short.
    """
    try:
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(new_token() + "\n")
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise DPQueryError(f"other users may read {path}, which holds the owner's token\n  Run chmod 600 on it.")
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DPQueryError(f"the owner's token cannot be read from {path}") from error
    if len(token) < SHORTEST_TOKEN:
        raise DPQueryError(f"{path} does not contain a token of at least {SHORTEST_TOKEN} characters")
    return token


def is_own_host(host: str, own: str) -> bool:
    """Whether the Host of a request names this machine: by an address, as localhost, or as `own`.

    A page of the web whose name was pointed at this machine sends its own name, which is refused.
    """
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return name in ("localhost", own.lower())
