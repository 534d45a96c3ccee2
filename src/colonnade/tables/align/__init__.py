"""Whose rows are about the same people: private set intersection of any number of parties, and a plain one.

::

    ids.py ── texts ── curve.py: masked points (or plain.py: hashes)
                           |
    peer.py: one party's end  <── steps.py, messages.py, box.py ──>  ring.py: what the owner asks for and relays
       |                   |
       |               terms.py: what was agreed on, and which way each list goes
    comparison.py: what the last party counts ── proof.py: do all orders agree? ── result.py: Alignment

The function :func:`colonnade.align` puts them together; it lives above the runtimes, in ``alignment.py``.
"""
