"""The contract's cases on a second device: `python tests/lazy_contract.py [RUNTIME ...]` prints a JSON line for each.

It is a process of its own, because torch's lazy backend cannot be taken back. Each line has the case, the runtime, and
what was wrong, or nothing. The reference is the case on the host, on the loop.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import torch
from test_contract import CASES, TOLERANCE, Case, everything, train

import lazy_device

SHORT: dict[str, Any] = {"rounds": 2, "evaluate_every": 2}


def wrong(case: Case, runtime: str, reference: Any) -> str:
    """What is wrong with the case on the other device; empty if nothing is."""
    try:
        with lazy_device.Mended():
            run = train(case, runtime, device=lazy_device.NAME, **SHORT)
            states = everything(run)
        groups = run.parties.backend.grouping.groups
        assert {group.device.name for group in groups} == {lazy_device.NAME if groups[0].nets else "cpu"}
        assert {value.device.type for value in states.values()} == {"cpu"}, "a state is not on the host"
        assert run.ledger.to_json() == reference.ledger.to_json(), "the ledger differs"
        check_close(states, everything(reference))
    except Exception as error:  # whatever it is, the next case is to run
        return f"{type(error).__name__}: {error}"
    return ""


def check_close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **TOLERANCE, msg=lambda m, n=name: f"{n}: {m}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lazy_device.begin()
    for case in CASES:
        reference = train(case, "loop", **SHORT)
        for runtime in sys.argv[1:]:
            line = {"case": str(case), "runtime": runtime, "wrong": wrong(case, runtime, reference)}
            print(json.dumps(line), flush=True)
