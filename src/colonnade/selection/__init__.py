"""Which parties to train with: by what they know about the labels, before any method, or by a trained model's heads.

::

    parties' distances ── owner: sums, ranks                       (OpenScores)
    parties' distances ── masks ──> helper: sums, ranks ──> owner  (HelperScores)
                                        |
                      information.py: nats from ranks ── strategies.py: whom to choose

The function :func:`colonnade.select` puts them together; it lives above the runtimes, in ``selection.py``.
"""
