# Everything runs in .venv, which any target makes by itself from .ci/requirements.lock; `make help` lists the targets.
# ARGS is handed on: make test ARGS="tests/unit -k quota", make lock ARGS=--upgrade.

PYTHON ?= python3
ARGS ?=
# Tests of the real cluster wait most of the time; each worker has a cluster of its own.
CLUSTERS ?= 4
# Releases of its peers, from those of tests/cluster/peers.py; empty: the oldest. CLIENTS=1: clients of others as well.
export KUBERNETES KOORDINATOR CLIENTS
VENV := .venv
BIN := $(VENV)/bin
LOCK := .ci/requirements.lock
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# The pure folders, from import-linter's contract: they are listed there and nowhere else.
PURE = $(shell $(BIN)/python -m tests.pure)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: demo test test-python dist release-check test-cluster test-torchx soak pace lint format pages docs bench coverage mutate lock stubs clean help

# Libraries from the lock and nothing else, in an empty environment: no pin of an older lock survives.
$(VENV)/.locked: $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	@echo "setting up $(VENV), once"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --require-hashes --requirement $(LOCK)
	@touch $@

# The build back end is in the lock too, so nothing more is fetched here.
$(READY): $(VENV)/.locked pyproject.toml hami_plugins/__init__.py
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY) ## plans on a fleet of many makers, then real node agents on an embedded cluster
	@$(BIN)/hami-plugins demo $(ARGS)

test: $(READY) ## every test that needs nothing but Python, in random order, on all cores
	@$(BIN)/python -m pytest -q -n auto $(ARGS)

# An environment of its own for each interpreter: make test-python PYTHON=python3.13
test-python: ## the tests of the pure part with another interpreter, PYTHON
	@$(MAKE) --no-print-directory VENV=.venv-$(notdir $(PYTHON)) test ARGS='tests/unit $(ARGS)'

# Helm is the one on the path, or the one that the tests of the cluster have built. KEY signs the charts: a key of gpg's.
# Files of a release have the time of the commit, so that the same commit gives the same files.
RELEASE := build/dist
KEY ?=
HELM ?= $(firstword $(shell command -v helm) $(wildcard $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hami-plugins/cluster/helm4-*/helm4) helm)
dist release-check: export SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),315532800)

dist: $(READY) ## everything of a release in build/dist: wheel, sdist, charts, images, bills of materials, checksums
	@rm -rf $(RELEASE)
	@$(BIN)/python -m charts.release $(RELEASE) --helm '$(HELM)' $(if $(KEY),--key '$(KEY)')

release-check: $(READY) ## that build/dist can be made again byte by byte, and is installed and works without this tree
	@$(BIN)/python -m charts.release.check $(RELEASE) --helm '$(HELM)'
	@$(BIN)/python -m tests.cluster.building
	@RELEASE=$(RELEASE) $(BIN)/python -m pytest -q tests/cluster/release_case.py $(ARGS)

test-cluster: $(READY) ## the real Kubernetes, containerd and Volcano: needs Linux, root and Go, builds them once
	@$(BIN)/python -m tests.cluster.building
	@$(BIN)/python -m pytest -q -n $(CLUSTERS) --dist loadfile --no-loadscope-reorder tests/cluster $(ARGS)

# TorchX pins an old urllib3, so it has an environment and a lock of its own. TORCHX names another release, without a lock.
TORCHX ?=
TORCHX_RELEASE := 0.7.0
TORCHX_LOCK := .ci/requirements-torchx.lock
TORCHX_VENV := .venv-torchx
# What else has to work beside its old urllib3: watches, and an allocator.
TORCHX_OLD := $(addprefix tests/integration/,kube/test_watch.py kube/test_reflector.py neuron_topology/server)
TORCHX_PIP := $(TORCHX_VENV)/bin/python -m pip --quiet --disable-pip-version-check

$(TORCHX_VENV)/.ready: $(TORCHX_LOCK) pyproject.toml
	@echo "setting up $(TORCHX_VENV), once"
	@$(PYTHON) -m venv --clear $(TORCHX_VENV)
	@$(TORCHX_PIP) install --require-hashes --requirement $(TORCHX_LOCK)
	@$(TORCHX_PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

test-torchx: $(TORCHX_VENV)/.ready ## the real TorchX: our named resources, our component, submit; watches and an allocator beside it
	@if [ -n '$(TORCHX)' ]; then rm -f $<; $(TORCHX_PIP) install --upgrade '$(TORCHX)'; fi
	@$(TORCHX_VENV)/bin/python -m pytest -q tests/torchx $(TORCHX_OLD) $(ARGS)

soak: $(READY) ## 1,000 pods of one shape, then 30 minutes of agents that crash, on the real components; build/soak.md
	@$(BIN)/python -m tests.cluster.building
	@$(BIN)/python -m tests.cluster.soak --pods 1000 --minutes 30 $(ARGS)

pace: $(READY) ## how long pods take to be bound, on the real components, with allocations put right and without; build/pace.md
	@$(BIN)/python -m tests.cluster.building
	@$(BIN)/python -m tests.cluster.pace $(ARGS)
	@$(BIN)/python -m tests.cluster.kube_pace 1000 5000
	@$(BIN)/python -m tests.cluster.kube_pace 1000 5000 --answer best

lint: $(READY) ## style, format, types and who imports whom
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@report=$$($(BIN)/lint-imports --no-logo 2>&1) || { printf '%s\n' "$$report"; exit 1; }

format: $(READY) ## rewrite the sources as lint wants them
	@$(BIN)/ruff check --quiet --fix --exit-zero
	@$(BIN)/ruff format --quiet

pages: $(READY) ## write the pages of docs/reference that come from the program anew
	@for page in commands metrics redaction releases rules settings support values vendors; do $(BIN)/python -m tests.golden.$${page}_page || exit 1; done

# The generator of the site has an environment and a lock of its own: neither the program nor its tests need it.
DOCS_LOCK := .ci/requirements-docs.lock
DOCS_VENV := .venv-docs

$(DOCS_VENV)/.ready: $(DOCS_LOCK)
	@echo "setting up $(DOCS_VENV), once"
	@$(PYTHON) -m venv --clear $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --requirement $(DOCS_LOCK)
	@touch $@

docs: $(DOCS_VENV)/.ready ## docs/ as a site of static pages in build/site; a broken link fails
	@report=$$(NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --clean $(ARGS) 2>&1) || { printf '%s\n' "$$report"; exit 1; }

bench: $(READY) ## measure speed and memory on this machine
	@$(BIN)/python -m tests.bench $(ARGS)

coverage: $(READY) ## run the tests and hold every branch of the pure part at 100 %, the rest at 85 %
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -q -n auto $(ARGS)
	@$(BIN)/coverage combine --quiet
	@failed=0; \
	$(BIN)/coverage report --include='$(PURE)' --fail-under=100 || failed=1; \
	$(BIN)/coverage report --omit='$(PURE)' --fail-under=85 || failed=1; \
	exit $$failed

mutate: $(READY) ## change one rule at a time in the pure modules, and list the changes that no test notices; hours
	@$(BIN)/python -m tests.mutation $(ARGS)

COMPILE := env -u PIP_FIND_LINKS -u PIP_EXTRA_INDEX_URL CUSTOM_COMPILE_COMMAND='make lock' \
	.venv-lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-annotate --no-emit-options \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links

# Pins stay where they are unless ARGS=--upgrade. To be run with the oldest Python that is supported.
lock: ## write all locks from pyproject.toml anew
	@$(PYTHON) -m venv --clear .venv-lock
	@.venv-lock/bin/python -m pip --quiet install --upgrade pip 'pip-tools>=7.5'
	@.venv-lock/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb")); \
	groups = project["dependency-groups"]; \
	print(*project["build-system"]["requires"], *groups["test"], *groups["lint"], sep="\n")' > .venv-lock/more.in
	@$(COMPILE) --extra=nvidia --output-file=$(LOCK) $(ARGS) pyproject.toml .venv-lock/more.in
	@.venv-lock/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb")); \
	tests = [each for each in project["dependency-groups"]["test"] if each.startswith(("hypothesis", "pytest"))]; \
	print(*project["build-system"]["requires"], *tests, "torchx[kubernetes]==$(TORCHX_RELEASE)", sep="\n")' > .venv-lock/more.in
	@$(COMPILE) --output-file=$(TORCHX_LOCK) $(ARGS) pyproject.toml .venv-lock/more.in
	@.venv-lock/bin/python -c 'import tomllib; \
	print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["docs"], sep="\n")' > .venv-lock/more.in
	@$(COMPILE) --output-file=$(DOCS_LOCK) $(ARGS) .venv-lock/more.in
	@rm -rf .venv-lock

# The stubs need the libraries that they were generated with, or newer: raise the bounds in pyproject.toml with them.
stubs: ## generate the gRPC stubs from hami_plugins/node/kubelet/*.proto anew
	@$(PYTHON) -m venv --clear .venv-stubs
	@.venv-stubs/bin/python -m pip --quiet install grpcio-tools mypy-protobuf
	@PATH=$$PWD/.venv-stubs/bin:$$PATH python -m grpc_tools.protoc -I. --python_out=. --grpc_python_out=. --mypy_out=quiet:. \
	hami_plugins/node/kubelet/*.proto
	@rm -rf .venv-stubs

clean: ## remove whatever the other targets made
	@rm -rf $(VENV) $(TORCHX_VENV) $(DOCS_VENV) .venv-lock .venv-stubs .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
