"""Every attack of an audit on what real runs recorded: a table of attacks by methods, each score beside its control's.

    python -m benchmarks.attack_trials                       breast cancer and credit default (4,000 rows), seed 0
    python -m benchmarks.attack_trials --data breast_cancer --methods splitnn vafl

The adversary is the first party that is not the owner's own part (for labels, and for the owner's columns if it has
some), or the owner (for that party's columns). Two classes are scored by the area under the ROC curve, columns by R2.
"""

from __future__ import annotations

import argparse
import time

import colonnade as cn
from benchmarks.attack_materials import materials_of, result
from benchmarks.table import show
from colonnade.privacy import attacks as _registers
from colonnade.privacy.attack import attacks

ROWS = {"breast_cancer": None, "credit_default": 4000}
METHODS = {
    "splitnn": "splitnn",
    "vafl": "vafl",
    "vimsgd": "vimsgd",
    "fedbcd": "fedbcd",
    "fedbcd, sums": cn.FedBCD(combine="sum"),
    "cvfl": "cvfl",
    "fdml": "fdml",
    "aggvfl": "aggvfl",
    "vimadmm": "vimadmm",
    "vimadmm-j": "vimadmm-j",
    "vfedmh": "vfedmh",
    "apfed": "apfed",
    "tvfl": "tvfl",
}
OWNS = {"vfedmh", "apfed", "tvfl"}
"""Methods whose owner has columns."""
assert _registers


def trial(data: str, name: str, rounds: int, seed: int) -> list[tuple[str, str, float, float, float]]:
    """Each attack that fits one run: the secret, its name, its score, its control's, and both scores' CPU seconds."""
    train, _ = cn.load(data, rows=ROWS[data], seed=seed, owner="first" if name in OWNS else "labels")
    options = {"rounds": rounds, "batch": 256, "seed": seed, "runtime": "loop"}
    found = []
    party = train[1].name
    for (adversary, secret), material in materials_of(train, METHODS[name], **options).items():
        if party in (adversary, material.of):
            for attack_name, attack in attacks().items():
                if attack.secret == material.secret and not attack().unfit(material):
                    began = time.process_time()
                    scores = result(attack_name, material, seed)
                    found.append((secret, attack_name, *scores, time.process_time() - began))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for data in options.data:
        lines: list[list[str]] = []
        for name in options.methods:
            for secret, attack, score, control, seconds in trial(data, name, options.rounds, options.seed):
                lines.append([name, secret, attack, f"{score:.3f}", f"{control:.3f}", f"{seconds:.1f}"])
                print(data, *lines[-1], sep=" | ", flush=True)
        header = ["method", "secret", "attack", "score", "control", "CPU seconds of both"]
        show(f"{data}, {options.rounds} rounds of 256, seed {options.seed}", header, lines)


if __name__ == "__main__":
    main()
