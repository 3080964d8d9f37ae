PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
DEMO ?= sample_runs/sim-dataloader-stall-merged-5s-319/run
MINUTES ?= 30
CASES ?= ../shared/cases
SCORER = $(CASES)/../tools/score.py

.DEFAULT_GOAL := help
.PHONY: help demo test bench venv check lint types imports format score laws fuzz clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## Diagnose a sample run (DEMO=FOLDER for another)
	@$(BIN)/correlator diagnose $(DEMO)

test: $(VENV)/.installed-dev ## Run the whole test suite (ARGS="-k name" for a part)
	$(BIN)/python -m pytest -n 2 $(ARGS)

bench: $(VENV)/.installed-dev ## Compare with rg, lnav and DuckDB (ARGS="--full" for 10 GB)
	$(BIN)/python -m benchmarks.bench $(ARGS)

venv: $(VENV)/.installed-dev ## Create .venv with everything for development

check: lint types imports test ## All that CI checks

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

score: $(VENV)/.installed ## Score the verdicts on labelled cases (CASES=FOLDER)
	@test -f $(SCORER) || { echo "no scorer at $(SCORER)" >&2; exit 2; }
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python $(SCORER) $(CASES)

laws: $(VENV)/.installed ## Change the form of all labelled cases, and show each verdict that changes with it (CASES=FOLDER)
	$(BIN)/python -m benchmarks.degradation $(CASES) --groups changes

fuzz: $(VENV)/.installed-fuzz ## Search for inputs that break a law (MINUTES=30, ARGS="--only lines,properties")
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(ARGS)

clean: ## Remove .venv and all caches
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .fuzz .import_linter_cache .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The package itself is installed in place, so only a change of what it needs calls for another installation.
$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --editable .
	@touch $@

# `pip install --group` came with pip 25.1; a fresh machine may have an older one.
$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install --constraint constraints.txt 'pip>=25.1'
	$(PIP) install --constraint constraints.txt --group dev
	@touch $@

$(VENV)/.installed-fuzz: $(VENV)/.installed-dev
	$(PIP) install --constraint constraints.txt --group fuzz
	@touch $@
