# One virtual environment, .venv, serves every target. pip's own settings (PIP_INDEX_URL and so on) apply.
PYTHON ?= python3
# More arguments for pytest: make test ARGS="tests/linear -k digits"
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
BASE := $(VENV)/installed-base
DEV := $(VENV)/installed-dev
DOCS := $(VENV)/installed-docs
OLDEST := .venv-oldest
AUDIT := .venv-audit
# Always with -c: without the pin, pip could choose another torch, with gigabytes of CUDA libraries.
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile -c constraints.txt
# pip would compile every file that it installs, in one process. Here all cores share the work, and leave out the tests
# of other packages, which nobody imports. A file that cannot be compiled, such as a template, does no harm.
COMPILE := $(BIN)/python -W ignore -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true
# Two test processes, one thread each.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n 2

# What the tests of the page need; `make test` installs it if it may. CHROMIUM= leaves the system alone.
CHROMIUM ?= chromium chromium-driver
APT := apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o DPkg::Lock::Timeout=20

# deep_accuracy reads the records of deep_transition.
BENCHMARKS := operators transition linear_fit linear_accuracy linear_table deep_step deep_transition deep_accuracy regularisation audit scale

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest browser slow fuzz soak audit-deps lint format bench docs clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 13

demo: $(BASE)  ## install the base package and run the demonstration
	$(BIN)/unflip demo

test: $(DEV) browser  ## run all tests except the slow ones
	$(PYTEST) $(ARGS)

# Ignores deprecation warnings, which old libraries raise about each other, and skips the modules that need PyTorch.
test-oldest: $(OLDEST)/installed  ## run the tests with the oldest versions that are supported, without PyTorch
	$(ONE_THREAD) $(OLDEST)/bin/python -m pytest -n 2 -W ignore::DeprecationWarning -W ignore::FutureWarning \
		--ignore=src/unflip/deep --ignore-glob='src/unflip/transition/*net.py' --ignore=src/unflip/transition/crossfit.py $(ARGS)

# If anything goes wrong here, one line says so; the tests of the page are then skipped, and the others run.
# The download has its own time limit, so that a slow network never interrupts dpkg.
browser:  ## install Chromium for the tests of the page (root on Debian)
	@if command -v chromedriver && { command -v chromium || command -v chromium-browser || command -v google-chrome; }; then \
		exit 0; \
	fi >/dev/null; \
	if [ -z "$(strip $(CHROMIUM))" ] || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "no Chromium with its driver: the tests of the page are skipped (on Debian, as root: apt-get install chromium chromium-driver)"; \
		exit 0; \
	fi; \
	echo "installing $(CHROMIUM) for the tests of the page"; \
	export DEBIAN_FRONTEND=noninteractive; \
	{ timeout -k 10 120 $(APT) update; \
		timeout -k 10 400 $(APT) install -y --no-install-recommends --download-only $(CHROMIUM) \
		&& timeout 900 $(APT) install -y --no-install-recommends --no-download $(CHROMIUM); \
	} >/dev/null 2>&1 </dev/null \
	|| echo "$(CHROMIUM) could not be installed: the tests of the page are skipped"

slow: $(DEV)  ## run the slow tests
	$(PYTEST) -m slow --timeout 1800 $(ARGS)

fuzz: $(DEV)  ## run more than 20,000 drawn problems and damaged files, which `make slow` also does
	$(PYTEST) -m fuzz --timeout 1800 tests/hostile $(ARGS)

# Ten minutes by default: make soak ARGS="--seconds 60 --processes 2"
soak: $(DEV)  ## let processes write and read shared folders while they are killed and disks are full
	$(ONE_THREAD) $(BIN)/python tests/hostile/soak.py $(ARGS)

# What a user gets by `pip install 'unflip[all]'` in the versions that are tested: pip resolves it without installing it,
# and nothing that only developers need is in it.
# --strict: if the advisory database cannot be reached, this fails, and does not say that all is well.
audit-deps: $(AUDIT)/installed  ## write a bill of materials, dist/bom.json, and look for known vulnerabilities
	mkdir -p dist
	$(AUDIT)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt \
		--dry-run --ignore-installed --report dist/resolved.json '.[all]'
	$(AUDIT)/bin/python -c "import json; found = (one['metadata'] for one in json.load(open('dist/resolved.json'))['install']); \
		print(*sorted(one['name'] + '==' + one['version'].split('+')[0] for one in found if one['name'] != 'unflip'), sep='\n')" \
		> dist/requirements.txt
	$(AUDIT)/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type library --output-reproducible \
		--output-format JSON --output-file dist/bom.json dist/requirements.txt
	$(AUDIT)/bin/pip-audit --strict --requirement dist/requirements.txt --no-deps --disable-pip --progress-spinner off

lint: $(DEV)  ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src

format: $(DEV)  ## fix style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)  ## run the scripts in benchmarks/, one after the other
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python benchmarks/$$script.py; done

docs: $(DOCS)  ## build the documentation, docs/_build/html/index.html
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html

clean:  ## remove the environment, the caches and all build output
	rm -rf $(VENV) $(OLDEST) $(AUDIT) build dist demo-report docs/_build .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	@$(COMPILE)
	@touch $@

$(OLDEST)/installed: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install -qq --disable-pip-version-check -c constraints-oldest.txt \
		-e '.[data,report,scale,onnx,test]'
	@touch $@

$(AUDIT)/installed:
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install -qq --disable-pip-version-check 'pip-audit>=2.7' 'cyclonedx-bom>=4.5'
	@touch $@

# One pip for the base and the rest is quicker than two. If the demo is wanted as well, this comes after the base, never
# at the same time: under make -j, two pips in one environment would get in each other's way.
$(DEV): pyproject.toml constraints.txt | $(BIN)/python $(if $(filter demo,$(MAKECMDGOALS)),$(BASE))
	$(INSTALL) -e '.[all,dev]'
	@$(COMPILE)
	@touch $(BASE) $@

$(DOCS): $(DEV)
	$(INSTALL) -e '.[docs]'
	@$(COMPILE)
	@touch $@
