"""How connections are encrypted."""

from __future__ import annotations

import contextlib
import hashlib
import ssl
from pathlib import Path

from cryptography import x509

from dpquery.errors import CatalogError


def tls_context(certificate: Path, key: Path, client_authority: Path | None = None) -> tuple[ssl.SSLContext, bytes]:
    """Returns how to encrypt, TLS 1.2 or newer, and the hash of the certificate that SCRAM binds to (RFC 5929).

    Raises:
        CatalogError: A file is missing, or they do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    with contextlib.suppress(OSError, ssl.SSLError, ValueError):
        context.load_cert_chain(certificate, key)
        if client_authority is not None:
            context.load_verify_locations(client_authority)
            context.verify_mode = ssl.CERT_OPTIONAL
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
        algorithm = read.signature_hash_algorithm
        name = "sha256" if algorithm is None or algorithm.name in ("md5", "sha1") else algorithm.name
        der = ssl.PEM_cert_to_DER_cert(_first_certificate(certificate.read_text()))
        return context, hashlib.new(name, der).digest()
    raise CatalogError(f"{certificate} and {key} are not a certificate and its key, or cannot be read")


def _first_certificate(text: str) -> str:
    end = "-----END CERTIFICATE-----"
    return text[text.index("-----BEGIN CERTIFICATE-----") : text.index(end) + len(end)]
