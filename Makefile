# Two commands on a fresh machine: `make demo` and `make test`. Needs Python 3.11 or later and a package index.
PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
BIN    := $(VENV)/bin
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
TEST_EXTRAS := dev,stats,plots,torch,transformers,outlier,knn,examples,scale,serve,postgres,sign
NO_TORCH_EXTRAS := test,stats,plots,outlier,knn,scale,serve,postgres,sign,safetensors
# These need no extra; a test of them that uses one skips itself.
CORE_TESTS := tests/scores tests/conformal tests/metrics tests/stats tests/drift tests/guard tests/evaluation tests/results \
	tests/test_contract.py tests/test_layers.py tests/test_rng.py tests/test_errors.py
NUMERICAL_TESTS := tests/scores tests/conformal tests/metrics tests/guard tests/drift tests/studies tests/docs/test_pages.py \
	tests/internal tests/scale/test_fitting.py tests/test_contract.py
KERNELS ?= Haswell Nehalem
LATER_PYTHONS := 3.12 3.13
PYTHON312 ?= python3.12
PYTHON313 ?= python3.13

# One thread per test worker: the workers are the parallelism.
export OMP_NUM_THREADS ?= 1

.PHONY: help demo serve test test-all test-kernels test-oldest test-python test-core test-wheel coverage lint types format docs bench bench-all clean

help:
	@echo "make demo         install the core into $(VENV) and run the demonstration"
	@echo "make serve        install the extra serve and show a live page with quiet, then drifting traffic"
	@echo "make test         install test and torch extras, then lint, types and the test suite"
	@echo "make test-all     the same with the long Monte-Carlo promises and the studies' checks"
	@echo "make test-kernels numerical tests with the BLAS kernels of other processors: $(KERNELS)"
	@echo "make test-oldest  the test suite with the oldest versions that pyproject.toml allows, in $(VENV)-oldest"
	@echo "make test-python  the test suite without torch in each later Python that is found: $(LATER_PYTHONS)"
	@echo "make test-core    what works without any extra, in $(VENV)-core"
	@echo "make test-wheel   builds the wheel and tests it, alone and with each extra, in environments of their own"
	@echo "make coverage     the test suite with branch coverage; fails under 95 %"
	@echo "make lint         ruff alone"
	@echo "make types        mypy alone"
	@echo "make format       let ruff put the code in shape"
	@echo "make docs         the documentation site, into site/ (open site/index.html)"
	@echo "make bench        Caveat against other packages and the floor: writes docs/benchmarks.md (BENCH=--force on a busy machine)"
	@echo "make bench-all    every benchmarks/bench_*.py: ratios to a floor measured in the same run"
	@echo "make clean        remove $(VENV) and the other environments, caveat-demo and the caches of the tools"
	@echo "Any of them takes PYTHON=python3.11, VENV=folder and JOBS=2; test-python takes PYTHON312=... and PYTHON313=..."

demo: $(VENV)/.core
	@echo "== caveat demo"
	@$(BIN)/caveat demo

serve: $(VENV)/.serve
	@test -d caveat-demo/guard || $(BIN)/caveat demo
	@echo "== a service on this machine, with traffic"
	@$(BIN)/python examples/live_traffic.py caveat-demo

test: $(VENV)/.test lint types
	@echo "== tests"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-all: $(VENV)/.test lint types
	@echo "== tests, the long ones too"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "slow or not slow"

# Nothing may depend on the last bit of a BLAS kernel. OpenBLAS takes the kernels that the variable names.
test-kernels: $(VENV)/.test
	@for kernel in $(KERNELS); do \
		echo "== numerical tests with $$kernel kernels"; \
		OPENBLAS_CORETYPE=$$kernel $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(NUMERICAL_TESTS) || exit 1; \
	done
	@echo "== promises of 400 guards with tied inputs"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m slow tests/guard/test_ties.py

test-oldest: $(VENV)-oldest/.test
	@echo "== tests with the oldest versions"
	@$(VENV)-oldest/bin/python -m pytest -n $(JOBS) --dist worksteal

test-python: $(LATER_PYTHONS:%=test-python-%)

# A command of that name may exist and not run (a pyenv shim), so it is asked for its version.
test-python-%:
	@if ! $(PYTHON$(subst .,,$*)) -c 'import sys; sys.exit("{}.{}".format(*sys.version_info) != "$*")' 2>/dev/null; then \
		echo "skipped: no python$* found. Name one by PYTHON$(subst .,,$*)=..."; \
	else \
		$(MAKE) --no-print-directory $(VENV)-$*/.test \
		&& echo "== tests with Python $*, without torch" \
		&& $(VENV)-$*/bin/python -m pytest -n $(JOBS) --dist worksteal; \
	fi

test-core: $(VENV)-core/.test
	@echo "== tests without any extra"
	@$(VENV)-core/bin/python -m pytest -n $(JOBS) --dist worksteal $(CORE_TESTS)

test-wheel: $(VENV)/.test
	@echo "== the built wheel"
	@$(BIN)/python -m pytest -m slow tests/test_wheel.py $(if $(WHEEL),-k "$(WHEEL)")

# Commands, servers and workers that tests start are measured too; each process writes a file of its own.
coverage: $(VENV)/.test
	@echo "== tests with coverage"
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest -n $(JOBS) --dist worksteal
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report

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

# An environment of its own: the site needs the core and mkdocs, and neither torch nor the tests' packages.
docs: $(VENV)-docs/.docs
	@echo "== documentation site"
	@NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict --quiet
	@echo "Site: site/index.html"

bench: $(VENV)/.test
	@$(BIN)/python benchmarks/page.py $(BENCH)

bench-all: $(VENV)/.test
	@for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-core $(VENV)-docs site $(LATER_PYTHONS:%=$(VENV)-%) caveat-demo .pytest_cache .mypy_cache .ruff_cache
	rm -f .coverage .coverage.*

$(BIN)/python:
	@echo "== creating $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("Caveat needs Python 3.11 or later; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	@echo "== installing the core"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.serve: pyproject.toml constraints.txt | $(BIN)/python
	@echo "== installing the extra serve"
	@$(PIP) --editable ".[serve]"
	@touch $@ $(VENV)/.core

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "== installing the extras $(TEST_EXTRAS) (a few minutes the first time)"
	@$(PIP) --editable ".[$(TEST_EXTRAS)]"
	@touch $@ $(VENV)/.core $(VENV)/.serve

$(VENV)-core/.test: pyproject.toml constraints.txt
	@echo "== installing the core and the test runner into $(@D)"
	@rm -rf $(@D)
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . \
		pytest pytest-xdist hypothesis
	@touch $@

$(VENV)-docs/.docs: pyproject.toml constraints.txt
	@echo "== installing the extra docs into $(@D)"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	@touch $@

# Made anew whenever a version changes: nothing of an earlier installation may help.
$(VENV)-oldest/.test: pyproject.toml constraints.txt tests/oldest.py
	@echo "== installing the oldest versions into $(@D) (a few minutes)"
	@rm -rf $(@D)
	@$(PYTHON) -m venv $(@D)
	@$(PYTHON) tests/oldest.py > $(@D)/oldest.txt
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --requirement $(@D)/oldest.txt
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@$(@D)/bin/python -m pip check
	@touch $@

$(LATER_PYTHONS:%=$(VENV)-%/.test): $(VENV)-%/.test: pyproject.toml constraints.txt
	@echo "== installing the extras $(NO_TORCH_EXTRAS) into $(@D) (a few minutes)"
	@rm -rf $(@D)
	@$(PYTHON$(subst .,,$*)) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --only-binary :all: \
		--editable ".[$(NO_TORCH_EXTRAS)]"
	@touch $@
