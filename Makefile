# Two commands on a fresh machine: `make demo` and `make test`. Needs Python 3.11 or later and a package index.
PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
BIN    := $(VENV)/bin
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
TEST_EXTRAS := dev,stats,torch,outlier,examples,scale

# One thread per test worker: the workers are the parallelism.
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test test-all lint types format bench clean

help:
	@echo "make demo      install the core into $(VENV) and run the demonstration"
	@echo "make test      install test and torch extras, then lint, types and the test suite"
	@echo "make test-all  the same with the long Monte-Carlo promises and the studies' checks"
	@echo "make lint      ruff alone"
	@echo "make types     mypy alone"
	@echo "make format    let ruff put the code in shape"
	@echo "make bench     the benchmarks: ratios to a floor measured in the same run"
	@echo "make clean     remove $(VENV), caveat-demo and the caches of the tools"
	@echo "Any of them takes PYTHON=python3.11, VENV=folder and JOBS=2."

demo: $(VENV)/.core
	@echo "== caveat demo"
	@$(BIN)/caveat demo

test: $(VENV)/.test lint types
	@echo "== tests"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-all: $(VENV)/.test lint types
	@echo "== tests, the long ones too"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "slow or not slow"

lint: $(VENV)/.test
	@echo "== lint"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .

types: $(VENV)/.test
	@echo "== types"
	@$(BIN)/mypy

format: $(VENV)/.test
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(VENV)/.test
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) caveat-demo .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	@echo "== creating $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("Caveat needs Python 3.11 or later; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	@echo "== installing the core"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "== installing the extras $(TEST_EXTRAS) (a few minutes the first time)"
	@$(PIP) --editable ".[$(TEST_EXTRAS)]"
	@touch $@ $(VENV)/.core
