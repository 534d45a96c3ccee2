"""TLS 1.3 with certificates on both sides, in grpc, and the check before a call that says what is wrong.

grpcio has no argument for a lowest TLS version. Its cipher suites can be set by an environment variable that is read
once, when grpc is imported; they are those of TLS 1.2 only, while those of TLS 1.3 are always on. So ``load_grpc``
names one suite that asks for a key shared before, which nobody has: TLS 1.2 finds no suite, TLS 1.3 is not touched.
The owner looks at the version of every stream as well.

grpc says little about a connection that cannot be made. So a party first makes the same TLS connection by itself
(``preflight``), names what is wrong, and then gives grpc the very certificate that it has checked as the only one to
trust: what grpc cannot check, revocation, holds for the stream too.
"""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from colonnade.errors import LinkError, RefusedError, UnreachableError
from colonnade.federation.certificates import Credentials, check_not_revoked, common_name

CIPHERS = "GRPC_SSL_CIPHER_SUITES"
NEEDS_A_SHARED_KEY = "ECDHE-PSK-CHACHA20-POLY1305"
_TRIES = 3  # how often the owner must hang up on our certificate before it counts as a refusal
_PAUSE = 0.2
_NOT_TLS = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "UNEXPECTED_MESSAGE",
)
_OLD_TLS = ("TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "UNSUPPORTED_SSL_VERSION", "WRONG_SSL_VERSION")
_WRONG_CERTIFICATE = {  # OpenSSL's verify codes
    9: "is not yet valid by our clock; check the clocks of both sides",
    10: "has expired by our clock; the owner must bring a new one, or check the clock",
    18: "is self-signed; the owner must bring one of our CA",
    19: "was issued by another CA than ours; compare ca.pem of both sides",
    20: "was issued by another CA than ours; compare ca.pem of both sides",
    21: "was issued by another CA than ours; compare ca.pem of both sides",
    26: "is not one for a server; the owner must bring its own and not a party's",
    62: "is for another host name; dial a name that is in it, or the owner must bring one with this name",
    64: "is for another address; dial a name that is in it, or the owner must bring one with this address",
}


def load_grpc() -> Any:
    """The module ``grpc``, which can speak nothing older than TLS 1.3 from now on."""
    if "grpc" in sys.modules and os.environ.get(CIPHERS) != NEEDS_A_SHARED_KEY:
        raise LinkError(
            "grpc was imported before colonnade could forbid it TLS 1.2; "
            f"set {CIPHERS}={NEEDS_A_SHARED_KEY} before the start."
        )
    os.environ[CIPHERS] = NEEDS_A_SHARED_KEY
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # every failure reaches the user as an error of ours
    try:
        import grpc
    except ImportError:
        raise LinkError(
            "a connection needs grpcio, which is not installed; pip install 'colonnade[federation]'."
        ) from None
    return grpc


def server_credentials(credentials: Credentials) -> Any:
    """The owner's side for grpc: no stream without a certificate of our CA."""
    pairs = [(credentials.key, credentials.cert)]
    return load_grpc().ssl_server_credentials(pairs, root_certificates=credentials.ca, require_client_auth=True)


def channel_credentials(credentials: Credentials, owner: bytes) -> Any:
    """A party's side for grpc, which believes one certificate only: the owner's as ``preflight`` gave it."""
    return load_grpc().ssl_channel_credentials(owner, private_key=credentials.key, certificate_chain=credentials.cert)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``.

    >>> split_address("[::1]:8443")
    ('::1', 8443)
    """
    host, _, port = address.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or (":" in bare and bare == host) or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise LinkError(f"'{address}' is no address; write host:port, such as owner.example:8443 or [::1]:8443.")
    return bare, int(port)


def client_context(credentials: Credentials) -> ssl.SSLContext:
    """A party's side for Python's ``ssl``: TLS 1.3, our certificate, our CA and nobody else's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=credentials.ca.decode("ascii"))
    context.set_alpn_protocols(["h2"])
    # ssl reads keys from files only; this one is encrypted, so that no readable key is left behind whatever happens
    password = secrets.token_bytes(32).hex().encode()
    key = load_pem_private_key(credentials.key, None)
    with TemporaryDirectory() as folder:
        path = Path(folder, "pair.pem")
        path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password)) + credentials.cert
        )
        context.load_cert_chain(path, password=password)
    return context


def preflight(
    host: str, port: int, credentials: Credentials, crl: str | Path | None = None, seconds: float = 10.0
) -> bytes:
    """Connect once as grpc will, and say in a sentence what is wrong; gives the owner's certificate as PEM.

    What may pass by itself (nobody there, a network that is down) is an :class:`UnreachableError`, anything else a
    :class:`LinkError` for good.
    """
    context, where = client_context(credentials), f"{host}:{port}"
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE)
        with _connected(host, port, seconds) as plain, _shaken(context, plain, host, where) as link:
            owner = ssl.DER_cert_to_PEM_cert(link.getpeercert(binary_form=True) or b"").encode()
            check_not_revoked(owner, crl, credentials.ca)
            if link.selected_alpn_protocol() != "h2":
                raise LinkError(f"{where} speaks TLS but not gRPC; check that it is the owner's port.")
            if _accepted(link, where):
                return owner
    raise RefusedError(
        f"the owner at {where} hung up on our certificate of '{common_name(credentials.cert)}': by its CA or its clock "
        "it is not good; compare ca.pem and the clocks of both sides."
    )


@contextmanager
def _connected(host: str, port: int, seconds: float) -> Iterator[socket.socket]:
    try:
        plain = socket.create_connection((host, port), timeout=seconds)
    except (socket.gaierror, UnicodeError):
        raise UnreachableError(f"the name '{host}' does not resolve; check its spelling and the network.") from None
    except TimeoutError:
        raise UnreachableError(
            f"{host}:{port} did not answer within {seconds:g} s; check address and firewalls."
        ) from None
    except ConnectionRefusedError:
        raise UnreachableError(f"nobody listens at {host}:{port}; start the owner, or check the port.") from None
    except OSError as error:
        raise UnreachableError(
            f"{host}:{port} cannot be reached: {error.strerror or error}; check the network."
        ) from None
    with plain:
        yield plain


@contextmanager
def _shaken(context: ssl.SSLContext, plain: socket.socket, host: str, where: str) -> Iterator[ssl.SSLSocket]:
    """The TLS connection over a plain one, or why there is none."""
    try:
        link = context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        why = _WRONG_CERTIFICATE.get(error.verify_code, f"is refused: {error.verify_message}; check it")
        raise RefusedError(f"the certificate of the owner at {where} {why}.") from None
    except (ssl.SSLEOFError, ConnectionError):
        raise UnreachableError(f"{where} hung up before TLS was agreed; check that the owner is well.") from None
    except TimeoutError:
        raise UnreachableError(
            f"{where} answers no TLS; check that it is the owner's port and that it is well."
        ) from None
    except ssl.SSLError as error:
        raise RefusedError(_why_not(error, where)) from None
    with link:
        yield link


def _why_not(error: ssl.SSLError, where: str) -> str:
    reason = error.reason or str(error)
    if reason in _OLD_TLS:
        return f"{where} speaks only TLS older than 1.3; the owner must allow TLS 1.3."
    if reason in _NOT_TLS:
        return f"{where} does not speak TLS; check that it is the owner's port."
    return f"TLS with {where} failed ({reason.lower().replace('_', ' ')}); check both sides' certificates."


def _accepted(link: ssl.SSLSocket, where: str) -> bool:
    """Whether the owner took our certificate: only then does it speak first, as HTTP/2 has it.

    In TLS 1.3 we are done before the owner has seen our certificate; if it dislikes it, grpc sends no alert but hangs
    up.
    """
    try:
        return bool(link.recv(1))
    except TimeoutError:
        raise UnreachableError(f"{where} agreed on TLS and then said nothing; check that the owner is well.") from None
    except (ssl.SSLError, OSError) as error:
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            reason = (error.reason or "").rpartition("ALERT_")[2].lower().replace("_", " ")
            raise RefusedError(
                f"the owner at {where} refused our certificate: {reason}; bring one that it takes."
            ) from None
        return False
