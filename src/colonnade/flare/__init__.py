"""A federation on NVIDIA FLARE: the owner in the server's job process, every party in a site's; needs ``[flare]``.

``listen`` and ``door`` are the two ends of a link, without FLARE; ``owner`` and ``site`` are what FLARE runs.
"""
