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
MINUTES ?= 60
ROUNDS  ?= 1
LAYER   ?=
SEEDS   ?= 20
HOURS   ?= 6
SEED    ?=
LIMIT   ?=
KUBERNETES ?=
REPOSITORY ?=
FOLDERS ?=
HOMEPAGE ?=

# Without bytecode, every start of the program compiles a thousand modules again: two seconds.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-bare integration unit without-memos check conformance attack fuzz simulation simulation-nightly nightly planted soak kills linearizability bench lowest follow metrics docs site dist image pythons install install-dev format protos types clean

help:            ## list the targets
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

install: $(VENV)/.base         ## install the package in .venv
install-dev: $(VENV)/.dev      ## install the package and everything that tests need in .venv

demo: $(VENV)/.base            ## start a cluster with simulated GPUs and show which pods get them, which wait, and why
	@$(BIN)/cathedra demo

test: $(VENV)/.dev             ## run the whole suite; tests that need a missing program are skipped with the reason
	@$(BIN)/python tools/suite.py -- $(PYTEST)

unit: $(VENV)/.dev             ## run the unit tests only, in three processes
	@$(BIN)/python tools/suite.py unit -- $(PYTEST)

integration: $(VENV)/.dev      ## run only the tests that start programs
	@$(BIN)/python tools/suite.py integration -- $(PYTEST)

test-bare: $(VENV)/.dev        ## run tests that use optional programs, as on a machine without any; then with kubectl only those that need it
	@mkdir -p build && rm -f build/passed-bare
	@$(BIN)/python tools/bare.py $(abspath $(BIN)/python) tools/suite.py --passed build/passed-bare optional -- $(PYTEST)
	@$(BIN)/python tools/bare.py --keep kubectl $(abspath $(BIN)/python) tools/suite.py --passed build/passed-bare integration -- $(PYTEST)

without-memos: $(VENV)/.dev    ## unit tests of the packages that have memos, and recorded answers of API and allocation, with memos switched off
	@CATHEDRA_REMEMBER=0 $(BIN)/python -m pytest -q -p no:cacheprovider tests/unit/test_remembering.py \
		$(addprefix tests/unit/,api client kinds semantics scheduler controllers) \
		$(addprefix tests/unit/apiserver/,admission authorization ownership) $(PYTEST)
	@CATHEDRA_REMEMBER=0 $(BIN)/python -m tests.conformance --area api --area allocation --check-baseline

check: $(VENV)/.dev            ## run ruff, mypy --strict and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

conformance: $(VENV)/.dev      ## replay Kubernetes' recorded answers and count matches [VECTORS=DIR] [AREA=api|allocation|cel|scenarios|declared] [SHOW=ID]; AREA=scenarios LIVE=KUBECONFIG [ONLY=ID] on a cluster
	@$(BIN)/python -m tests.conformance $(addprefix --vectors ,$(VECTORS)) $(addprefix --area ,$(AREA)) $(addprefix --show ,$(SHOW)) \
		$(addprefix --live --kubeconfig ,$(LIVE)) $(addprefix --only ,$(ONLY))

fuzz: $(VENV)/.dev             ## mutate the inputs of every layer that takes bytes from outside [SECONDS=120] [LAYER=NAME] [SEED=N]
	@$(BIN)/python -m tools.fuzzing --seconds $(SECONDS) $(addprefix --layer ,$(LAYER)) $(addprefix --seed ,$(SEED))

simulation: $(VENV)/.base      ## run clusters with faults in virtual time and check their invariants [SEEDS=20] [HOURS=6] [SEED=N: the first] [LIMIT=seconds]
	@$(BIN)/cathedra simulate-faults --seeds $(SEEDS) --hours $(HOURS) $(addprefix --seed ,$(SEED)) $(addprefix --seconds ,$(LIMIT))

simulation-nightly: $(VENV)/.base  ## the same for an hour, with fresh seeds and figures in simulation.json
	@$(BIN)/cathedra simulate-faults --seeds 100000 --seconds 2700 --figures simulation.json
	@$(BIN)/cathedra simulate-faults --seeds 100000 --seconds 900 --sqlite

nightly: $(VENV)/.dev          ## run everything that takes hours, also if a part fails: simulation, planted bugs, fuzzing, histories, kills, attacks, soak; needs root
	@$(MAKE) --no-print-directory --keep-going simulation-nightly planted fuzz linearizability kills attack soak SECONDS=600

planted: $(VENV)/.dev          ## plant bugs and measure the time until random seeds find each
	@$(BIN)/python -m tools.planted

attack: $(VENV)/.dev           ## send hard inputs to a fresh cluster and print stalls of /livez and memory; fails above 1 s and 100 MiB [ONLY=NAME]
	@$(BIN)/python -m tools.attack $(addprefix --only ,$(ONLY))

kills: $(VENV)/.dev            ## kill every process at each of its fault points, then take disk, processes and memory away; needs root [ROUNDS=1]
	@$(BIN)/python -m tools.kills --rounds $(ROUNDS)
	@$(BIN)/python -m tools.kills.shortages

linearizability: $(VENV)/.dev  ## kill API servers under concurrent clients and check their histories, on SQLite and on etcd [SECONDS=120]
	@$(BIN)/python -m tools.linearizability --seconds $(SECONDS)
	@$(BIN)/python -m tools.linearizability --seconds $(SECONDS) --servers 3
	@$(BIN)/python -m tools.linearizability --seconds $(SECONDS) --store etcd --servers 3

soak: $(VENV)/.dev             ## churn a cluster in real time and fail if memory, descriptors, tasks or the store grow [MINUTES=60]
	@$(BIN)/python -m tools.soak --minutes $(MINUTES)

lowest:                        ## run the unit tests with the lowest versions that pyproject.toml allows, in .venv-lowest
	@test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	@$(PYTHON) tools/lowest.py > .venv-lowest/constraints.txt
	@.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-lowest/constraints.txt -e . hypothesis jsonschema-rs kr8s kubernetes pytest pytest-asyncio pytest-timeout
	@$(PYTHON) tools/suite.py --python .venv-lowest/bin/python unit

follow: $(VENV)/.dev           ## list what differs from a Kubernetes release: KUBERNETES=v1.38.0-rc.0 REPOSITORY="CLONE..."
	@$(BIN)/python -m tools.follow $(KUBERNETES) $(addprefix --repository ,$(REPOSITORY))

dist: $(VENV)/.dev             ## build sdist and wheel in dist/, the krew plugin in dist-krew/, twice with equal bytes [HOMEPAGE=URL]
	@$(BIN)/python tools/dist.py $(HOMEPAGE)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check twine
	@$(BIN)/python -m twine check --strict dist/*

image: $(VENV)/.dev            ## build the image localhost/cathedra from the wheel of dist/, on a base of Debian's packages; needs buildah and mmdebstrap
	@$(BIN)/python tools/image.py

pythons: $(VENV)/.dev          ## install the wheel of dist/ into each Python 3.11 to 3.15 that is found, and run the demo [FOLDERS=DIR...]
	@$(BIN)/python tools/pythons.py $(FOLDERS)

metrics:                       ## print sizes, documentation and wording of the sources
	@$(PYTHON) tools/metrics.py

bench: $(VENV)/.dev            ## run the benchmarks and print one table
	@$(BIN)/python -m benchmarks

bench-report: $(VENV)/.dev     ## plot how costs grow with nodes, pods, claims, watchers and time, in bench-report/ [SECONDS of churn]
	@$(BIN)/python -m benchmarks.report --churn $(SECONDS)

docs: $(VENV)/.base            ## build the documentation as a site in site/, beside the page of make site
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@$(BIN)/python -m tools.handbook

site: $(VENV)/.dev             ## build the page without a server: site/play/ and site/cathedra.html; needs node and npm
	@$(BIN)/python -m tools.playground

format: $(VENV)/.dev           ## format the sources
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

protos: $(VENV)/.dev           ## generate the gRPC stubs from proto/
	@PATH=$(abspath $(BIN)):$$PATH bash tools/generate_protos.sh

types: $(VENV)/.dev            ## generate the object types from Kubernetes' wire facts
	@$(BIN)/python tools/generate_types.py

clean:                         ## remove the files that other targets create
	rm -rf $(VENV) .venv-lowest .mypy_cache .ruff_cache .pytest_cache .hypothesis site dist dist-krew build playground/node_modules
