# One virtual environment, .venv, serves every target. pip's own settings (PIP_INDEX_URL and so on) are honoured.
PYTHON ?= python3
# Further arguments for pytest: make test ARGS="tests/linear -k digits"
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/installed-base
DEV := $(VENV)/installed-dev
# -c always: without its pin, pip could take another torch with gigabytes of CUDA libraries.
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt
# Two test processes with one thread each.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# deep_accuracy reads the records of deep_transition.
BENCHMARKS := operators transition linear_fit linear_accuracy linear_table deep_step deep_transition deep_accuracy regularisation

.DEFAULT_GOAL := help
.PHONY: help demo test slow lint format bench clean

help:  ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## */\1\t/' | expand -t 10

demo: $(BASE)  ## install the base package and run the demonstration
	$(BIN)/unflip demo

test: $(DEV)  ## run the tests but the slow ones
	$(PYTEST) $(ARGS)

slow: $(DEV)  ## run the slow tests
	$(PYTEST) -m slow --timeout 1800 $(ARGS)

lint: $(DEV)  ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src

format: $(DEV)  ## mend style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)  ## run the scripts in benchmarks/, one after the other
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python benchmarks/$$script.py; done

clean:  ## remove the environment, the caches and what was built
	rm -rf $(VENV) build dist demo-report .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	@touch $@

# After the base, never beside it: two pips in one environment would harm each other under make -j.
$(DEV): $(BASE)
	$(INSTALL) -e '.[all,dev]'
	@touch $@
