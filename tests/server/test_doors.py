"""Who comes in: passwords, delegates, certificates, TLS; and who does not."""

from __future__ import annotations

import datetime
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dpquery.frontends.postgres.listener import PASSWORDS
from dpquery.frontends.postgres.login.lobby import LONGEST_DELAY, PasswordGuesses
from tests.server.raw import CANCEL_REQUEST, SSL_REQUEST, Client, errors, packet, query, startup
from tests.server.running import Running, running


def issue(
    folder: Path, name: str, signer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None = None
) -> tuple[Path, Path, tuple[x509.Certificate, ec.EllipticCurvePrivateKey]]:
    """Makes a certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    built = built.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
    built = built.not_valid_after(now + datetime.timedelta(days=2)).issuer_name(
        signer[0].subject if signer else subject
    )
    built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    built = built.add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
    made = built.sign(signer[1] if signer else key, hashes.SHA256())
    certificate, private = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    private.chmod(0o600)
    return certificate, private, (made, key)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    folder = Path(tmp_path_factory.mktemp("tls"))
    certificate, key, authority = issue(folder, "localhost")
    issue(folder, "carol@example.org", authority)
    issue(folder, "mallory@example.org", authority)
    issue(folder, "stranger")
    with running(folder, certificate=(certificate, key, certificate), caps={"dpquery.epsilon": "1"}) as found:
        yield found, folder


def test_a_password_opens_and_is_bound_to_the_certificate(encrypted: tuple[Running, Path]) -> None:
    server, folder = encrypted
    for binding in ("require", "prefer", "disable"):
        certificate = folder / "localhost.crt"
        url = server.url(sslmode="verify-ca", sslrootcert=str(certificate), channel_binding=binding)
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert connection.info.parameter_status("session_authorization") == "alice"


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong horse"), ("nobody", "correct horse"), ("x" * 63, "")])
def test_wrong_users_and_wrong_passwords_are_told_the_same(server: Running, user: str, password: str) -> None:
    with Client(server.host, server.port) as client, pytest.raises(AssertionError) as caught:
        client.log_in(user, password)
    told = caught.value.args[0]
    assert "28P01" in str(told)
    assert f'password authentication failed for user "{user}"' in str(told)


def test_both_see_the_same_kind_of_challenge_each_time(server: Running) -> None:
    """The salt of a user that does not exist is as stable as any other."""
    salts = {}
    for user in ("alice", "nobody"):
        for attempt in range(2):
            with Client(server.host, server.port) as client:
                client.send(startup(user=user))
                client.read()
                first = b"n,,n=,r=abc"
                body = b"SCRAM-SHA-256\0" + len(first).to_bytes(4, "big") + first
                client.send(b"p" + (len(body) + 4).to_bytes(4, "big") + body)
                words = client.read()[1][4:].decode().split(",")
                salts[user, attempt] = (words[1], words[2])
    assert salts["alice", 0] == salts["alice", 1] != salts["nobody", 0] == salts["nobody", 1]
    assert len(salts["alice", 0][0]) == len(salts["nobody", 0][0])
    assert salts["alice", 0][1] == salts["nobody", 0][1]


def test_a_certificate_opens_for_its_user_alone(encrypted: tuple[Running, Path]) -> None:
    server, folder = encrypted

    def url(user: str, name: str) -> str:
        files = {"sslcert": str(folder / f"{name}.crt"), "sslkey": str(folder / f"{name}.key")}
        return f"host=127.0.0.1 port={server.port} user={user} dbname=x sslmode=require " + " ".join(
            f"{option}={path}" for option, path in files.items()
        )

    with psycopg.connect(url("carol", "carol@example.org")) as connection:
        assert connection.execute("whoami").fetchone() == ("carol", "")
    for user, name in (("carol", "mallory@example.org"), ("alice", "carol@example.org"), ("carol", "stranger")):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url(user, name) + " password=")


def test_a_delegate_asks_for_those_it_may_ask_for(server: Running) -> None:
    with Client(server.host, server.port) as client:
        client.log_in("alice", options="-c dpquery.login=superset")
        assert client.rows("whoami") == [["alice", ""]]
    for user, login in (("bob", "superset"), ("alice", "bob"), ("nobody", "superset")):
        with Client(server.host, server.port) as client, pytest.raises(AssertionError) as caught:
            client.log_in(user, options=f"-c dpquery.login={login}")
        assert caught.value.args[0]["C"] == "28000"


def test_set_role_is_for_delegates(server: Running) -> None:
    with Client(server.host, server.port) as client:
        client.log_in("superset")
        assert client.rows("SET ROLE alice; whoami") == [["alice", ""]]
        assert client.rows("SHOW role") == [["alice"]]
        client.send(query("BEGIN; RESET ROLE; ROLLBACK"))
        client.ready()
        assert client.rows("whoami; SHOW role") == [["superset", ""], ["none"]]
        assert client.error(query("SET SESSION AUTHORIZATION bob"))["C"] == "42501"
    with Client(server.host, server.port) as client:
        client.log_in("bob")
        assert client.rows("whoami") == [["robert", ""]]
        denied = [client.error(query(f"SET ROLE {name}"))["M"] for name in ("alice", "nobody")]
        assert denied[0].replace("alice", "nobody") == denied[1]


def test_a_new_password_holds_at_once(server: Running) -> None:
    users = server.server.users
    users.add("dora", "first secret")
    with Client(server.host, server.port) as client:
        client.log_in("dora", "first secret")
    users.set_password("dora", "second secret")
    with Client(server.host, server.port) as client, pytest.raises(AssertionError):
        client.log_in("dora", "first secret")
    users.remove("dora")
    with Client(server.host, server.port) as client, pytest.raises(AssertionError):
        client.log_in("dora", "second secret")


def test_bytes_before_tls_are_never_taken_for_the_clients(encrypted: tuple[Running, Path]) -> None:
    """CVE-2021-23214: what somebody puts behind the request for TLS is not executed after the handshake."""
    server, _ = encrypted
    with Client(server.host, server.port) as client:
        client.send(packet(SSL_REQUEST) + startup(user="alice"))
        kind, body = client.read()
        assert kind == "E"
        assert errors(body)["C"] == "08P01"
        assert client.is_closed()


def test_tls_is_not_older_than_1_2(encrypted: tuple[Running, Path]) -> None:
    server, _ = encrypted
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    try:
        with pytest.warns(DeprecationWarning, match="deprecated"):
            context.maximum_version = ssl.TLSVersion.TLSv1_1
    except ValueError:
        return  # this OpenSSL has no older one at all
    with Client(server.host, server.port) as client, pytest.raises((ssl.SSLError, OSError)):
        client.encrypt(context)


def test_a_value_above_the_owners_cap_is_not_set(encrypted: tuple[Running, Path]) -> None:
    server, _ = encrypted
    with Client(server.host, server.port) as client:
        client.encrypt()
        client.log_in()
        assert client.error(query("SET dpquery.epsilon = 1000"))["C"] == "42501"
        assert client.error(query("SET dpquery.epsilon = -1"))["C"] == "22023"
        client.send(query("SET dpquery.epsilon = '1'"))
        client.ready()
    with Client(server.host, server.port) as client:
        client.encrypt()
        with pytest.raises(AssertionError) as caught:
            client.log_in(options="-c dpquery.epsilon=99")
    assert caught.value.args[0]["C"] == "42501"


def test_a_request_to_cancel_is_answered_by_silence(server: Running) -> None:
    with Client(server.host, server.port) as victim:
        victim.log_in()
        for key in (b"\0\0\0\0", victim.key + b"x", b"\0" * 32):
            with Client(server.host, server.port) as client:
                client.send(packet(CANCEL_REQUEST, victim.process.to_bytes(4, "big") + key))
                assert client.is_closed()
        assert victim.rows("SELECT 1") == [["1"]]


def test_wrong_passwords_are_logged_with_the_name_on_one_line(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dpquery.server")
    name = 'eve" user=alice\nconnected'
    with Client(server.host, server.port) as client, pytest.raises(AssertionError):
        client.log_in(name, "a guess")
    (line,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("rejected")]
    assert r'user="eve\" user=alice\\nconnected"' in line and "why=28P01" in line and "a guess" not in line
    assert "\n" not in line


def test_guesses_are_slowed_and_whoever_knows_the_password_comes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WRK-06: a delay for the user and the address that guesses were made of, and no lock."""
    delays: list[float] = []
    plain = PasswordGuesses.delay

    def shorter(self: PasswordGuesses, *who: Any) -> float:
        delays.append(plain(self, *who))
        return delays[-1] / 100

    monkeypatch.setattr(PasswordGuesses, "delay", shorter)
    monkeypatch.setattr("dpquery.frontends.postgres.login.login.PENALTY", 0.0)
    with running(tmp_path) as server:
        for i in range(8):
            with Client(server.host, server.port) as client, pytest.raises(AssertionError):
                client.log_in("alice", f"guess {i}")
        assert delays[:3] == [0, 0, 0] and delays[3] < delays[4] < delays[5] <= LONGEST_DELAY == delays[7]
        with Client(server.host, server.port) as client:
            client.log_in("bob")
        with Client(server.host, server.port) as client:
            client.log_in("alice")
        assert delays[8] == 0 and 0 < delays[9] <= LONGEST_DELAY


def test_few_guesses_of_one_user_are_looked_at_at_once(tmp_path: Path) -> None:
    """Many sockets guess no faster than few: logins of a user from an address go on four at a time."""
    with running(tmp_path) as server:
        clients = [Client(server.host, server.port) for _ in range(12)]
        for client in clients:
            client.send(startup(user="alice"))
        asked = [client.exactly(1) for client in clients[:PASSWORDS]]
        assert asked == [b"R"] * PASSWORDS
        with Client(server.host, server.port) as other:
            other.log_in("bob")
        for client in clients[PASSWORDS:]:
            client.socket.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.socket.recv(1)
        for client in clients:
            client.socket.close()


def test_clear_text_can_be_refused_on_the_machine_itself_too(tmp_path: Path) -> None:
    certificate, key, _ = issue(tmp_path, "localhost")
    with running(tmp_path, certificate=(certificate, key, None)) as server:
        server.server.needs_tls = True
        with Client(server.host, server.port) as client, pytest.raises(AssertionError) as caught:
            client.log_in()
        assert caught.value.args[0]["C"] == "28000" and "TLS is required" in caught.value.args[0]["M"]
        with psycopg.connect(server.url(sslmode="require")) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
