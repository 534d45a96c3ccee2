"""What analysts ask first about everybody's columns: information value, missing shares, correlation, stability.

::

    raw_columns.py: a table's columns as their holder named them ── column_bins.py: bins of enough rows
                                                                      |
    describe_party.py  <──         describe_messages.py         ──>  describe_owner.py
    adds up encrypted labels per bin                                    encrypts labels, opens the sums
                                                                      |
    label_targets.py: labels as whole numbers        column_figures.py: WoE, IV, correlation ── description_result.py

The function :func:`colonnade.describe` in ``describe_tables.py`` puts them together.
"""
