"""Files that only the holder of a key can read, and only as they were written: AES-256-GCM in pieces.

Each file has a key of its own, derived from the owner's key and 32 random bytes. Its pieces are numbered and the last
one says that it is, so none can be left out, moved or taken from another file. docs/proofs/shards.md.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import io
import os
import re
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpquery.errors import CatalogError

VARIABLE = "DPQUERY_KEY"
"""The environment's variable of the key, where no other is given."""
MAGIC = b"dpquery sealed 1"
PIECE = 1 << 16
"""Bytes of a piece before encryption; the last one has up to as many, each other one exactly."""
TAG, SALT, NAME = 16, 32, 16
HEADER = len(MAGIC) + NAME + SALT
_FORMS = "64 hexadecimal digits, or 32 bytes in Base64"


class DamagedError(Exception):
    """A file that is not as it was written, or was sealed by another key; its words say which."""


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """A key of 32 bytes, which nothing shows.

    Attributes:
        secret: The bytes.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != 32:
            raise CatalogError(f"a key has 32 bytes: {_FORMS}")

    @property
    def name(self) -> bytes:
        """Tells it from other keys; nothing of it follows from that."""
        return hmac.digest(self.secret, MAGIC + b" name", "sha256")[:NAME]

    def of_file(self, salt: bytes) -> AESGCM:
        """Returns the cipher of a file with this salt."""
        derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=MAGIC + b" file").derive(self.secret)
        return AESGCM(derived)


def key_of(given: object) -> EncryptionKey | None:
    """Returns the key that is given: 32 bytes, a string of them, the `Path` of a file that only its owner may read, or
    where nothing is given what the environment's `DPQUERY_KEY` says, if that is set.

    Raises:
        CatalogError: It is none of these; the words hold nothing of it.
    """
    if given is None:
        said = os.environ.get(VARIABLE)
        return None if not said else _of_text(said, f"{VARIABLE} is not a key")
    if isinstance(given, EncryptionKey):
        return given
    if isinstance(given, bytes):
        return EncryptionKey(given)
    if isinstance(given, str):
        return _of_text(given, "the key is a string that is not one (name a file as pathlib.Path)")
    if isinstance(given, Path):
        return _of_text(_read(given), f"the file {given} does not hold a key")
    raise CatalogError(f"a key is bytes, a string or the Path of a file, not a {type(given).__name__}")


def _of_text(text: str, otherwise: str) -> EncryptionKey:
    text = text.strip()
    found = b""
    if re.fullmatch(r"[0-9a-fA-F]{64}", text):
        found = bytes.fromhex(text)
    else:
        try:
            found = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            found = b""
    if len(found) != 32:
        raise CatalogError(f"{otherwise}: it has to be {_FORMS}, as from `openssl rand -hex 32`")
    return EncryptionKey(found)


def _read(path: Path) -> str:
    """Returns the content of a file of a key, which no other user may read."""
    problem = ""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                problem = "is not a file"
            elif os.name == "posix" and (status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid())):
                problem = "may be read by others than you: chmod 600"
            else:
                return file.read(1000).decode(errors="replace")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    raise CatalogError(f"the file of the key, {path}, {problem}")


class Writer(io.RawIOBase):
    """A new file, only for its owner, that is sealed as it is written.

    Args:
        path: Of a file that is not there.
    """

    def __init__(self, path: str | os.PathLike[str], key: EncryptionKey) -> None:
        salt = os.urandom(SALT)
        self._cipher, self._header = key.of_file(salt), MAGIC + key.name + salt
        self._held, self._pieces, self._size = bytearray(), 0, 0
        self._file = open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")  # noqa: SIM115
        self._file.write(self._header)

    def writable(self) -> bool:
        """Whether it may be written to."""
        return True

    def tell(self) -> int:
        """Returns how many bytes were written."""
        return self._size

    def write(self, data: Any) -> int:
        """Appends bytes; the disk gets them in whole pieces."""
        self._held += data
        self._size += len(data)
        while len(self._held) > PIECE:
            self._put(bytes(self._held[:PIECE]), is_last=False)
            del self._held[:PIECE]
        return len(data)

    def _put(self, piece: bytes, *, is_last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._pieces, is_last), piece, self._header))
        self._pieces += 1

    def close(self) -> None:
        """Writes the last piece."""
        if not self.closed:
            self._put(bytes(self._held), is_last=True)
            self._file.close()
        super().close()


def create(path: str | os.PathLike[str], key: EncryptionKey | None) -> Any:
    """Returns a new file to be written, only for its owner; sealed, where there is a key."""
    return Writer(path, key) if key else open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


class EncryptedFileReader(io.RawIOBase):
    """A sealed file, each piece of which is checked as it is read.

    Threads may read at once: each has its own place, as the engine first seeks and then reads.

    Raises:
        DamagedError: By the constructor or any reading.
    """

    def __init__(self, path: str | os.PathLike[str], key: EncryptionKey) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        try:
            self._header = _header(os.pread(self._descriptor, HEADER, 0), key)
            self._cipher = key.of_file(self._header[-SALT:])
            stored = os.fstat(self._descriptor).st_size - HEADER
            self._pieces = -(-stored // (PIECE + TAG))
            self.size = stored - TAG * self._pieces
            if self._pieces < 1 or self.size < 0:
                raise DamagedError("is cut off")
        except BaseException:
            os.close(self._descriptor)
            self._descriptor = -1
            raise
        self._places: dict[int, int] = {}

    def readable(self) -> bool:
        """Whether it may be read."""
        return True

    def seekable(self) -> bool:
        """Whether it may be read at any place."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Returns this thread's place after moving it."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self.size}[whence]
        self._places[threading.get_ident()] = max(0, start + offset)
        return self.tell()

    def tell(self) -> int:
        """Returns this thread's place."""
        return self._places.get(threading.get_ident(), 0)

    def read(self, size: int | None = -1) -> bytes:
        """Returns the bytes from this thread's place on, all that are left by default."""
        start = self.tell()
        end = self.size if size is None or size < 0 else min(start + size, self.size)
        if end <= start:
            return b""
        first, last = start // PIECE, (end - 1) // PIECE
        stored = memoryview(self._stored(first, last))
        made = bytearray()
        for number in range(first, last + 1):
            place = (number - first) * (PIECE + TAG)
            made += self._opened(number, stored[place : place + PIECE + TAG])
        self._places[threading.get_ident()] = end
        return bytes(memoryview(made)[start - first * PIECE : end - first * PIECE])

    def _stored(self, first: int, last: int) -> bytes:
        """Returns the pieces as they are stored."""
        wanted, parts = (last - first + 1) * (PIECE + TAG), list[bytes]()
        place = HEADER + first * (PIECE + TAG)
        while wanted and (part := os.pread(self._descriptor, wanted, place)):
            parts.append(part)
            wanted, place = wanted - len(part), place + len(part)
        return b"".join(parts)

    def _opened(self, number: int, piece: memoryview) -> bytes:
        try:
            return self._cipher.decrypt(_nonce(number, number == self._pieces - 1), piece, self._header)
        except InvalidTag:
            pass
        raise DamagedError("is not as it was written")

    def close(self) -> None:
        """Ends reading."""
        if not self.closed and self._descriptor >= 0:
            os.close(self._descriptor)
        super().close()


def _nonce(number: int, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])


def _header(stored: bytes, key: EncryptionKey) -> bytes:
    if len(stored) < HEADER or not is_sealed(stored):
        raise DamagedError("is not encrypted")
    if not hmac.compare_digest(stored[len(MAGIC) : len(MAGIC) + NAME], key.name):
        raise DamagedError("was encrypted with another key")
    return stored


def is_sealed(content: bytes) -> bool:
    """Whether a file that begins like this is sealed."""
    return content.startswith(MAGIC)
