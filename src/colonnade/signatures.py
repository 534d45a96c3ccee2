"""Who says something: the identity of an organisation, its signatures, and what exactly is signed.

It stands below ``seal/`` because the command needs it without PyTorch: for keys, and to check the end of an audit log.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from colonnade.errors import SealError


def pack(*parts: bytes | str | int) -> bytes:
    """The parts as bytes, each after its length, so that different lists of parts give different bytes.

    >>> pack("ab", "c") == pack("a", "bc")
    False
    """
    raw = [p.to_bytes(8) if isinstance(p, int) else p.encode() if isinstance(p, str) else p for p in parts]
    return b"".join(len(part).to_bytes(4) + part for part in raw)


class Identity:
    """The Ed25519 key of an organisation; the manifest of every job has its public half."""

    def __init__(self, private: bytes) -> None:
        if len(private) != 32:
            raise SealError(f"a private identity key of {len(private)} bytes came; it must be 32.")
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public: bytes = self._key.public_key().public_bytes_raw()

    @classmethod
    def new(cls) -> Identity:
        """A fresh identity.

        >>> me = Identity.new()
        >>> verify(me.public, b"text", me.sign(b"text"))
        """
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    def private(self) -> bytes:
        """The 32 secret bytes that ``Identity(...)`` takes; store them where only the party can read them."""
        return self._key.private_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """The signature, 64 bytes."""
        return self._key.sign(message)


def verify(public: bytes, message: bytes, signature: bytes, what: str = "a message") -> None:
    """Refuse a signature that ``public`` did not make over ``message``; the error says ``what`` was signed."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError, TypeError):
        raise SealError(f"the signature of {what} is not valid; it is altered, of another session or forged.") from None
