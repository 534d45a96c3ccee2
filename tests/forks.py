"""Processes that start in a moment: a fork server has Colonnade loaded, and each process loads grpc itself."""

import multiprocessing

context = multiprocessing.get_context("forkserver")
SIDES = ["owner_process", "party_process", "prediction", "owner_description"]
context.set_forkserver_preload(
    ["benchmarks.warm", "colonnade.cli", *(f"colonnade.federation.{side}" for side in SIDES)]
)
