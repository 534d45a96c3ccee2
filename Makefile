# Everything a newcomer or CI needs; every install goes through constraints.txt.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
# Real data beside the checkout, if it is there; tests that need it are skipped otherwise.
export COLONNADE_DATA ?= $(wildcard $(abspath ../shared/data))

.PHONY: setup demo test quick long check docs bench clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/colonnade demo

test: setup
	$(BIN)/python -m pytest -n 2 -m "not long"

quick: setup
	$(BIN)/python -m pytest -n 2 -m "not slow and not long"

long: $(VENV)/.ready-long
	$(BIN)/python -m pytest -n 2 -m long

# Ray and FLARE are large, and only the long tests need them.
$(VENV)/.ready-long: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,ray,flare]'
	touch $@

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 -m "not slow and not long"
	$(MAKE) docs

docs: setup
	$(BIN)/mkdocs build --strict --quiet

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist site
