"""Boxes: encrypted bytes from one party to another, which the relaying owner cannot read, change or misroute."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from colonnade.errors import SealError
from colonnade.signatures import pack

_NONCE = 12
OVER = _NONCE + 16
"""How many bytes longer a box is than its contents."""


class Boxes:
    """One party's boxes of one alignment. Each has a key of its own, from the pair's key and the box's purpose.

    >>> bank, shop = Boxes("bank", {"shop": bytes(32)}), Boxes("shop", {"bank": bytes(32)})
    >>> shop.open("bank", bank.seal("shop", b"hello", "words", 0), "words", 0)
    b'hello'
    >>> shop.open("bank", bank.seal("shop", b"hello", "words", 1), "words", 0)
    Traceback (most recent call last):
        ...
    colonnade.errors.SealError: the words of 'bank' do not open at 'shop': altered, misrouted or out of turn; stop.
    """

    def __init__(self, me: str, keys: Mapping[str, bytes]) -> None:
        self._me, self._keys = me, keys

    def seal(self, to: str, raw: bytes, what: str, *about: int) -> bytes:
        """Encrypt bytes for another party."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher(to, self._me, to, what, *about).encrypt(nonce, raw, None)

    def open(self, sender: str, sealed: bytes, what: str, *about: int) -> bytes:
        """Decrypt another party's box for this party, if it has the expected purpose."""
        try:
            cipher = self._cipher(sender, sender, self._me, what, *about)
            return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
        except (InvalidTag, ValueError):
            raise SealError(
                f"the {what} of '{sender}' do not open at '{self._me}': altered, misrouted or out of turn; stop."
            ) from None

    def _cipher(self, peer: str, sender: str, receiver: str, what: str, *about: int) -> ChaCha20Poly1305:
        about_it = pack("colonnade/align/box", sender, receiver, what, *about)
        return ChaCha20Poly1305(hmac.digest(self._keys[peer], about_it, "sha256"))
