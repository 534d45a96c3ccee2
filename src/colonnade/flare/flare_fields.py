"""Our fields as FLARE's messages: bytes by name and nothing else, so FLARE's serialisation has no array to work on."""

from __future__ import annotations

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable

from colonnade.flare.site_connection import LETTER, Fields

OK = ReturnCode.OK
LONGEST = 64  # bytes of everything but a request or reply
_NAMES = ("nonce", "key", "last", "done", LETTER)


def shareable_of(fields: Fields) -> Shareable:
    """A message of FLARE's."""
    return Shareable(fields)


def fields_in(message: Shareable) -> Fields:
    """What came in a message, if it is bytes under a name that we know, and not too many."""
    known = {name: message[name] for name in _NAMES if isinstance(message.get(name), bytes)}
    return {name: value for name, value in known.items() if name == LETTER or len(value) <= LONGEST}
