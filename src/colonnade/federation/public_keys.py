"""Public identity keys: identity.pub (base64), 64 hexadecimal digits, a PEM key or a certificate; as file or text."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from colonnade.disk.small_files import read_small
from colonnade.errors import RefusedError

_LARGEST = 64 * 1024
_HEX = re.compile(rb"\s*[0-9a-fA-F]{64}\s*")
_BASE64 = re.compile(rb"\s*[A-Za-z0-9+/]{43}=\s*")
_PEM = b"-----BEGIN "


def read_public(path_or_text: str | Path) -> bytes:
    """The 32 bytes of an Ed25519 public key, from a file or from the text that such a file has."""
    raw = str(path_or_text).encode()
    is_text = isinstance(path_or_text, str) and (_HEX.fullmatch(raw) or _BASE64.fullmatch(raw) or _PEM in raw)
    try:
        key = _parsed(raw if is_text else _read(path_or_text))
    except ValueError:
        key = None
    if key is None:
        where = "the text of a key" if is_text else path_or_text
        raise RefusedError(
            f"{where} holds no Ed25519 public key; give identity.pub, a PEM key, a certificate of one, or its 64 "
            "hexadecimal digits."
        )
    return key


def _read(path: str | Path) -> bytes:
    try:
        return read_small(path, _LARGEST)
    except OSError as error:
        raise RefusedError(
            f"the key {path} cannot be read: {error.strerror}; `colonnade keys` makes what a trial needs."
        ) from None


def _parsed(raw: bytes) -> bytes | None:
    if _HEX.fullmatch(raw):
        return bytes.fromhex(raw.decode())
    if _BASE64.fullmatch(raw):
        return base64.b64decode(raw)
    is_certificate = b"-----BEGIN CERTIFICATE-----" in raw
    key = x509.load_pem_x509_certificate(raw).public_key() if is_certificate else load_pem_public_key(raw)
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None
