"""The README's ten lines: load, train, evaluate, and see what left the house.

Run it with ``python examples/quickstart.py``; it takes a few seconds and writes report.html here.
"""

import colonnade as cn

train, test = cn.load("digits", parties=4)
run = cn.train(train, method="vimadmm", epochs=5, batch=256, seed=0, test=test)

print(run.evaluate(test))  # {"accuracy": ..., "loss": ...}
print(run.ledger.by_party)  # bytes that each party sent or received
print(run.importance())  # how much each party matters
print("see", run.report("report.html"))
