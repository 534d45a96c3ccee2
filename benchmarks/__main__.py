"""All benchmarks: speed, scaling, blinding, watching, reports, selection on digits always; the others as time allows.

make bench                      all, one seed of each (several hours on two cores)
python -m benchmarks --full     seeds 0 to 2 of everything, as the docs show
python -m benchmarks --quick    speed, scaling, blinding, watching, reports and selection on digits only
"""

from __future__ import annotations

import argparse
import subprocess
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true")
    size.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    seeds = [] if options.full else ["--seeds", "0"]
    jobs = [["speed"], ["scaling"], ["blinding"], ["live"], ["report"], ["selection", "--parts", "digits"]]
    if not options.quick:
        jobs += [
            ["accuracy", *seeds],
            ["orders", *seeds],
            ["traffic", *seeds, "--pictures", "docs/pictures"],
            ["one_message", *seeds],
            ["overlap", *seeds],
            ["vfedmh"],
            ["apfed", *seeds],
            ["apfed_speed", "--accuracy"],
            ["contributions"],
            ["missing"],
            ["fedoptimus", *seeds],
            ["selection", "--parts", "mnist"],
            ["reading"],
            ["canaries"],
            ["tables", *seeds],
            ["pictures", "all", "--data", "mnist", "fashion_mnist", "modelnet40_views"],
        ]
    for module, *arguments in jobs:
        print(f"\n## benchmarks.{module} {' '.join(arguments)}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *arguments], check=True)


if __name__ == "__main__":
    main()
