"""Sealed files: read back with the key as they were written, and not otherwise."""

from __future__ import annotations

import base64
import os
import threading
from pathlib import Path

import pytest

from dpquery.data.encrypted_files import (
    HEADER,
    PIECE,
    TAG,
    DamagedError,
    EncryptedFileReader,
    EncryptionKey,
    create,
    key_of,
)
from dpquery.errors import CatalogError

KEY = EncryptionKey(bytes(range(32)))


def sealed(path: Path, content: bytes, key: EncryptionKey = KEY) -> Path:
    with create(path, key) as file:
        for start in range(0, len(content), 10_000):
            file.write(content[start : start + 10_000])
    return path


def content_of(path: Path, key: EncryptionKey = KEY) -> bytes:
    with EncryptedFileReader(path, key) as file:
        return file.read()


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 3 * PIECE + 17])
def test_what_is_written_is_read(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    path = sealed(tmp_path / "file", content)
    assert path.stat().st_mode & 0o777 == 0o600
    assert content_of(path) == content
    with EncryptedFileReader(path, KEY) as file:
        for start, length in ((0, size), (size // 2, 10), (PIECE - 3, 7), (max(0, size - 5), 100)):
            file.seek(start)
            assert file.read(length) == content[start : start + length]
            assert file.tell() == max(start, min(start + length, size))


def test_nothing_of_the_content_is_in_the_file_and_no_two_files_are_alike(tmp_path: Path) -> None:
    content = b"Ada Lovelace " * 10_000
    one, two = (sealed(tmp_path / name, content).read_bytes() for name in "ab")
    assert b"Ada" not in one and one[HEADER : HEADER + 100] != two[HEADER : HEADER + 100]
    assert KEY.secret not in one


@pytest.mark.parametrize("place", [0, 20, 40, HEADER, HEADER + PIECE + 5, -1])
def test_a_flipped_bit_is_found(tmp_path: Path, place: int) -> None:
    path = sealed(tmp_path / "file", os.urandom(3 * PIECE))
    stored = bytearray(path.read_bytes())
    stored[place] ^= 4
    path.write_bytes(stored)
    with pytest.raises(DamagedError, match=r"not as it was written|not encrypted|another key"):
        content_of(path)


def test_pieces_are_not_left_out_moved_or_taken_from_other_files(tmp_path: Path) -> None:
    first, second = (sealed(tmp_path / name, os.urandom(3 * PIECE)).read_bytes() for name in "ab")
    whole = PIECE + TAG
    pieces = [first[HEADER + i * whole : HEADER + (i + 1) * whole] for i in range(3)]
    header, other = first[:HEADER], second[HEADER : HEADER + whole]
    wrong = [pieces[:2], pieces[1:], [pieces[1], pieces[0], pieces[2]], [other, *pieces[1:]], [*pieces, pieces[2]]]
    for kept in [*wrong, [pieces[0], pieces[1], pieces[2][:-1]], []]:
        (tmp_path / "c").write_bytes(header + b"".join(kept))
        with pytest.raises(DamagedError):
            content_of(tmp_path / "c")


def test_another_key_is_told_from_damage(tmp_path: Path) -> None:
    path = sealed(tmp_path / "file", b"content")
    with pytest.raises(DamagedError, match="another key"):
        content_of(path, EncryptionKey(bytes(32)))
    (tmp_path / "plain").write_bytes(b"PAR1" * 100)
    with pytest.raises(DamagedError, match="is not encrypted"):
        content_of(tmp_path / "plain")


def test_threads_that_share_a_file_have_a_place_each(tmp_path: Path) -> None:
    """The engine's threads first seek and then read."""
    content = os.urandom(20 * PIECE)
    wrong = list[int]()
    with EncryptedFileReader(sealed(tmp_path / "file", content), KEY) as file:

        def read(first: int) -> None:
            for start in range(first, len(content) - 1000, 7 * 1000):
                file.seek(start)
                if file.read(1000) != content[start : start + 1000]:
                    wrong.append(start)

        threads = [threading.Thread(target=read, args=(first,)) for first in (0, 5, 777, 9000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_keys_come_from_bytes_strings_files_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPQUERY_KEY", raising=False)
    secret, path = KEY.secret, tmp_path / "key"
    path.write_text(secret.hex() + "\n")
    path.chmod(0o600)
    assert key_of(None) is None
    given = [KEY, secret, secret.hex(), secret.hex().upper(), base64.b64encode(secret).decode(), path]
    assert {key_of(one) for one in given} == {KEY}
    monkeypatch.setenv("DPQUERY_KEY", secret.hex())
    assert key_of(None) == KEY
    assert key_of(bytes(32)) == EncryptionKey(bytes(32))


def test_what_is_no_key_is_refused_without_a_word_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "key"
    path.write_text("hunter2")
    path.chmod(0o600)
    monkeypatch.setenv("DPQUERY_KEY", "hunter2")
    for given in ("hunter2", b"hunter2", path, None, 17, "hunter2" * 10, tmp_path / "none", tmp_path):
        with pytest.raises(CatalogError) as caught:
            key_of(given)
        assert "hunter2" not in str(caught.value)
    path.write_text(KEY.secret.hex())
    path.chmod(0o640)
    with pytest.raises(CatalogError, match="may be read by others"):
        key_of(path)
    assert KEY.secret.hex() not in repr(KEY) and str(KEY.secret) not in repr(KEY)
