"""Find the rows that all parties have in common: by private set intersection of any number of parties, or openly.

::

    id_texts.py ── texts ── curve.py: masked points (or plain_ids.py: hashes); ladder.py: many of them, by numba
                                |
                            mask_work.py: by threads, ahead of the messages
                                |
    alignment_party.py  <── align_messages.py, box.py ──>  alignment_owner.py
    one party's end, with its steps                        asks for the steps and relays
       |                |
       |            align_terms.py: what was agreed on, and each list's path through the parties
    comparison.py: the last party counts ── order_proof.py: do all orders agree? ── alignment.py: Alignment

The function :func:`colonnade.align` in ``align_sheets.py`` puts them together.
"""
