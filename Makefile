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

.PHONY: help demo test integration others unit unit-front unit-server unit-back check conformance fuzz bench lowest metrics docs install install-dev format protos types clean

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

test: unit                     ## the whole suite; what needs a missing program is skipped and says so
	@$(MAKE) --no-print-directory -j2 --output-sync=line integration others

# In two processes, since tests wait for the programs that they start.
integration:
	@$(BIN)/python -m pytest tests/integration -p no:cacheprovider $(PYTEST)

others:
	@$(BIN)/python -m pytest tests --ignore=tests/unit --ignore=tests/integration -p no:cacheprovider $(PYTEST)

# In three processes on any number of processors, since tests wait now and then: most of these are in the last.
unit: $(VENV)/.dev             ## the unit tests alone, in three processes
	@$(MAKE) --no-print-directory -j3 --output-sync=target $(UNIT)

UNIT := unit-front unit-server unit-back
FRONT := tests/unit/allocation tests/unit/api tests/unit/cel tests/unit/classic tests/unit/cluster tests/unit/controllers tests/unit/kinds
SERVER := tests/unit/apiserver
unit-front:
	@$(BIN)/python -m pytest $(FRONT) -p no:cacheprovider $(PYTEST)

unit-server:
	@$(BIN)/python -m pytest $(SERVER) -p no:cacheprovider $(PYTEST)

unit-back:
	@$(BIN)/python -m pytest tests/unit $(addprefix --ignore=,$(FRONT) $(SERVER)) -p no:cacheprovider $(PYTEST)

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

lowest:                        ## the unit tests with the lowest versions that pyproject.toml allows, in .venv-lowest
	@test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	@$(PYTHON) tools/lowest.py > .venv-lowest/constraints.txt
	@.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-lowest/constraints.txt -e . hypothesis jsonschema-rs kubernetes pytest pytest-asyncio pytest-timeout
	@$(MAKE) --no-print-directory -j3 --output-sync=target $(UNIT) BIN=.venv-lowest/bin

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
