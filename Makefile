# make train, make test: each makes .venv, installs what it needs, and sees to an adapter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: train test test-all lint bench clean

train: $(VENV)/.ready
	@$(BIN)/shadertape setup || echo "Going on without an adapter, on the host."
	$(BIN)/shadertape train digits-mlp

test: $(VENV)/.ready
	@$(BIN)/shadertape setup
	$(BIN)/python -m pytest -n 2

test-all: $(VENV)/.ready
	@$(BIN)/shadertape setup
	$(BIN)/python -m pytest -n 2 -m ''

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/matmul.py
	$(BIN)/python benchmarks/conv.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/replay.py

$(VENV)/.ready: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[examples,test]'
	@touch $@

$(VENV)/.lint: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[examples,test,dev]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "shadertape needs Python 3.11 or newer."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "Python's venv module is missing: sudo apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV)
