"""Choose the parties to train with: by their information about the labels, before training, or by a model's heads.

::

    parties' distances ── owner: sums, ranks                       (OpenScores)
    parties' distances ── masks ──> helper: sums, ranks ──> owner  (HelperScores)
                                        |
                      information.py: nats from ranks ── strategies.py: choice of parties

The function :func:`colonnade.select` puts them together; it is in ``study/select_parties.py``.
"""
