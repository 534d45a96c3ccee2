"""Public identity keys from files: identity.pub, a PEM key, a certificate, or 64 hexadecimal digits."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from colonnade.disk.small_files import read_small
from colonnade.errors import ConfigError

_LARGEST = 64 * 1024


def read_public(path: str | Path) -> bytes:
    """The 32 bytes of an Ed25519 public key."""
    try:
        raw = read_small(path, _LARGEST)
    except OSError as error:
        raise ConfigError(f"the key {path} cannot be read: {error.strerror}.") from error
    try:
        key = _parsed(raw)
    except ValueError:
        key = None
    if key is None:
        raise ConfigError(
            f"{path} holds no Ed25519 public key; give identity.pub, a PEM key, a certificate of one, or its 64 "
            "hexadecimal digits."
        )
    return key


def _parsed(raw: bytes) -> bytes | None:
    if re.fullmatch(rb"\s*[0-9a-fA-F]{64}\s*", raw):
        return bytes.fromhex(raw.decode())
    if re.fullmatch(rb"\s*[A-Za-z0-9+/]{43}=\s*", raw):
        return base64.b64decode(raw)
    is_certificate = b"-----BEGIN CERTIFICATE-----" in raw
    key = x509.load_pem_x509_certificate(raw).public_key() if is_certificate else load_pem_public_key(raw)
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None
