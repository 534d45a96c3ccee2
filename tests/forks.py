"""Processes that start in a moment: a fork server has Colonnade loaded, and each process loads grpc itself."""

import multiprocessing

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    ["colonnade.cli.federation_command", "colonnade.federation.party_process", "benchmarks.warm"]
)
