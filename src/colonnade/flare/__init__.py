"""A federation on NVIDIA FLARE: the owner in the server's job process, every party in a site's; needs ``[flare]``.

``site_links`` and ``door`` are the two ends of a connection, without FLARE; ``owner`` and ``site`` are what FLARE runs.
"""
