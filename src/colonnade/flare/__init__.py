"""A federation on NVIDIA FLARE: the owner in the server's job process, every party in a site's; needs ``[flare]``.

``owner_connections`` and ``site_connection`` are the two ends of a connection, and do not import FLARE. ``owner`` and
``site`` are what FLARE runs.
"""
