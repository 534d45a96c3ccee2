"""From raw files of two organisations to a model, in ten lines.

Make the files first (``python examples/make_files.py credit FOLDER``), then ``python examples/tables.py FOLDER``.
"""

import sys
from pathlib import Path

import colonnade as cn

folder = Path(sys.argv[1])
bank = cn.read(folder / "bank.csv", id="ID", label="default", categories=["SEX", "EDUCATION", "MARRIAGE"])
card = cn.read(folder / "card-*.parquet", id="customer", name="card")
alignment = cn.align([bank, card], minimum=100)  # nobody learns an id that the other one does not have
train, test = cn.prepare([bank, card], alignment, test=0.2, seed=0)
run = cn.train(train, "splitnn", epochs=8, batch=256, model=cn.MLP((64,)), optimizer=cn.Adam(0.001, decay=0.01))

print(f"{alignment.count} of {bank.rows} and {card.rows} people are common")
print(run.evaluate(test))  # {"accuracy": ..., "loss": ..., "auc": ...}
print(run.ledger.by_party)  # bytes that each party sent or received
