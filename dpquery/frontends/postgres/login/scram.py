"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS, the server's side: RFC 5802 and 7677, as PostgreSQL speaks them.

The package scramp does not serve here: it refuses the empty user name that libpq sends, and passwords that SASLprep
forbids, which PostgreSQL takes as they are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass, field

from dpquery.errors import CatalogError

ITERATIONS = 4096
MOST_BYTES = 2048
PLAIN, BOUND = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
_FIRST = re.compile(
    r"(?P<header>(?P<flag>n|y|p=[A-Za-z0-9.-]+),,)(?P<bare>n=[^,]*,r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+))(,.*)?"
)
_LAST = re.compile(
    r"(?P<unproven>c=(?P<bind>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)),p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramError(Exception):
    """A message that is none of SCRAM, or a proof that is wrong; the client is not told which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """What proves a password without holding it."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def new_verifier(password: str) -> Verifier:
    """Returns a verifier with a fresh salt. Raises CatalogError for a password of less than eight characters."""
    if not 8 <= len(password) <= 1000:
        raise CatalogError("a password has 8 to 1,000 characters")
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", _prepared(password), salt, ITERATIONS)
    stored_key = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    return Verifier(iterations=ITERATIONS, salt=salt, stored_key=stored_key, server_key=_hmac(salted, b"Server Key"))


def no_verifier(name: str, secret: bytes) -> Verifier:
    """Returns the verifier of a user that does not exist: of the usual form, matched by no password."""
    return Verifier(
        iterations=ITERATIONS,
        salt=_hmac(secret, b"salt" + name.encode())[:16],
        stored_key=secrets.token_bytes(32),
        server_key=secrets.token_bytes(32),
    )


_FORBIDDEN = (
    *(stringprep.in_table_a1, stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3),
    *(stringprep.in_table_c4, stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7),
    *(stringprep.in_table_c8, stringprep.in_table_c9),
)


def _prepared(password: str) -> bytes:
    """Returns a password as SASLprep (RFC 4013) makes it, or as it is where that is forbidden, as PostgreSQL does."""
    mapped = "".join(" " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c))
    normal = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if not normal or any(table(c) for c in normal for table in _FORBIDDEN):
        return password.encode()
    return normal.encode()


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise ScramError from None


class Exchange:
    """One authentication.

    Args:
        verifier: Of the user, or one that no password matches.
        mechanism: What the client chose.
        binding: The hash of the server's certificate where the connection is encrypted and can be bound to it.
    """

    def __init__(self, verifier: Verifier, mechanism: str, binding: bytes | None) -> None:
        self._verifier, self._mechanism, self._binding = verifier, mechanism, binding
        self._header = self._bare = self._nonce = self._first = ""

    def first(self, data: bytes) -> bytes:
        """Returns the answer to the client's first message."""
        match = _FIRST.fullmatch(_text(data))
        if match is None:
            raise ScramError
        flag = match["flag"]
        if (self._mechanism == BOUND) is not flag.startswith("p="):
            raise ScramError
        if flag.startswith("p=") and (flag != "p=tls-server-end-point" or self._binding is None):
            raise ScramError
        if flag == "y" and self._binding is not None:
            raise ScramError  # the client believes that the server cannot bind: somebody took the offer away
        self._header, self._bare = match["header"], match["bare"]
        self._nonce = match["nonce"] + base64.b64encode(secrets.token_bytes(18)).decode()
        salt = base64.b64encode(self._verifier.salt).decode()
        self._first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._first.encode()

    def final(self, data: bytes) -> bytes:
        """Returns the answer to the client's last message. Raises ScramError unless it proves the password."""
        match = _LAST.fullmatch(_text(data))
        if match is None:
            raise ScramError
        bound = self._header.encode() + (self._binding or b"" if self._mechanism == BOUND else b"")
        signed = f"{self._bare},{self._first},{match['unproven']}".encode()
        proof, signature = _decoded(match["proof"]), _hmac(self._verifier.stored_key, signed)
        key = bytes(a ^ b for a, b in zip(proof.ljust(32, b"\0")[:32], signature, strict=True))
        is_proven = hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key)
        is_same = hmac.compare_digest(match["nonce"].encode(), self._nonce.encode())
        is_bound = hmac.compare_digest(_decoded(match["bind"]), bound)
        if not (is_proven and is_same and is_bound and len(proof) == 32):
            raise ScramError
        return b"v=" + base64.b64encode(_hmac(self._verifier.server_key, signed))


def _text(data: bytes) -> str:
    if len(data) > MOST_BYTES:
        raise ScramError
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ScramError from None
