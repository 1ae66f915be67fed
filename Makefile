# One command per need; each works on a fresh Debian with Python >= 3.11. Nothing here needs root.
PYTHON  ?= python3
VENV    ?= .venv
BIN     := $(VENV)/bin
VECTORS ?=
AREA    ?=
LIVE    ?=
ONLY    ?=
SHOW    ?=
SECONDS ?= 120
LAYER   ?=
SEED    ?=

# Without bytecode every start of the program compiles a thousand modules anew: two seconds.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-bare integration unit check conformance attack fuzz bench lowest metrics docs install install-dev format protos types clean

help:            ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*##/\t/' | expand -t 16

$(VENV)/.base: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: install it with your package manager"; exit 1; }
	@echo "installing Cathedra into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.base
	@echo "installing the development tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

install: $(VENV)/.base         ## the package in .venv
install-dev: $(VENV)/.dev      ## the package and everything tests need in .venv

demo: $(VENV)/.base            ## start a cluster, run the tutorial's job on simulated GPUs, show it
	@$(BIN)/cathedra demo

test: $(VENV)/.dev             ## the whole suite, with progress and one summary; what needs a missing program is skipped and says so
	@$(BIN)/python tools/suite.py -- $(PYTEST)

unit: $(VENV)/.dev             ## the unit tests alone, in three processes
	@$(BIN)/python tools/suite.py unit -- $(PYTEST)

integration: $(VENV)/.dev      ## the tests with programs of their own alone
	@$(BIN)/python tools/suite.py integration -- $(PYTEST)

test-bare: $(VENV)/.dev        ## tests that use optional programs, as on a machine without them; then with kubectl alone
	@$(BIN)/python tools/bare.py $(abspath $(BIN)/python) tools/suite.py optional -- $(PYTEST)
	@$(BIN)/python tools/bare.py --keep kubectl $(abspath $(BIN)/python) tools/suite.py integration -- $(PYTEST)

check: $(VENV)/.dev            ## ruff, mypy --strict, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

conformance: $(VENV)/.dev      ## Kubernetes' recorded answers: passed/total [VECTORS=DIR] [AREA=api|allocation|cel|scenarios] [SHOW=ID]; AREA=scenarios LIVE=KUBECONFIG [ONLY=ID] on a cluster
	@$(BIN)/python -m tests.conformance $(addprefix --vectors ,$(VECTORS)) $(addprefix --area ,$(AREA)) $(addprefix --show ,$(SHOW)) \
		$(addprefix --live --kubeconfig ,$(LIVE)) $(addprefix --only ,$(ONLY))

fuzz: $(VENV)/.dev             ## mutate inputs of every layer that takes bytes from outside [SECONDS=120] [LAYER=NAME] [SEED=N]
	@$(BIN)/python -m tools.fuzzing --seconds $(SECONDS) $(addprefix --layer ,$(LAYER)) $(addprefix --seed ,$(SEED))

attack: $(VENV)/.dev           ## hard inputs against a fresh cluster: stalls of /livez and memory, in one table; fails above 1 s and 100 MiB [ONLY=NAME]
	@$(BIN)/python -m tools.attack $(addprefix --only ,$(ONLY))

lowest:                        ## the unit tests with the lowest versions that pyproject.toml allows, in .venv-lowest
	@test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	@$(PYTHON) tools/lowest.py > .venv-lowest/constraints.txt
	@.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-lowest/constraints.txt -e . hypothesis jsonschema-rs kubernetes pytest pytest-asyncio pytest-timeout
	@$(PYTHON) tools/suite.py --python .venv-lowest/bin/python unit

metrics:                       ## sizes, documentation, words: how easy the sources are to read
	@$(PYTHON) tools/metrics.py

bench: $(VENV)/.dev            ## one table of measurements
	@$(BIN)/python -m benchmarks

bench-report: $(VENV)/.dev     ## how costs grow with nodes, pods, claims, watchers and time: plots and figures in bench-report/ [SECONDS of churn]
	@$(BIN)/python -m benchmarks.report --churn $(SECONDS)

docs: $(VENV)/.base            ## the documentation as a site in site/
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(VENV)/.dev           ## format the sources
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

protos: $(VENV)/.dev           ## generate the gRPC stubs from proto/
	@PATH=$(abspath $(BIN)):$$PATH bash tools/generate_protos.sh

types: $(VENV)/.dev            ## generate the object types from their facts
	@$(BIN)/python tools/generate_types.py

clean:                         ## remove what the other targets made
	rm -rf $(VENV) .venv-lowest .mypy_cache .ruff_cache .pytest_cache .hypothesis site dist
