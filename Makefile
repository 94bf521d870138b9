# `make help` lists what there is to make.

BIN := .venv/bin
CONFORMANCE := tests/conformance
NPM := $(CONFORMANCE) loadtest/peers
WITH_NODE := PATH="$(CURDIR)/$(BIN):$$PATH"
URL ?= http://localhost:4437
export PYTHON

# The environment's commands name their interpreter by its full path: a moved checkout needs new ones.
$(shell grep -qsF '$(CURDIR)/.venv' $(BIN)/activate || rm -f .venv/.ready*)

.PHONY: help install run edge dev tools test lint format conformance bench edgebench sparkbench load profile lock clean
.NOTPARALLEL:
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

install: .venv/.ready ## make .venv with the server in it (PYTHON=... to choose the interpreter)

run: install ## start the server on http://localhost:4437
	@exec $(BIN)/ds-server

edge: install ## start the server behind a Varnish, together on http://localhost:4437
	@exec sh infra/edge/run.sh

test: dev tools .venv-load/.ready .venv/.ready-java lint ## set everything up and run every check and test
	$(BIN)/python -m pytest --numprocesses=auto --maxprocesses=8 --dist=loadscope \
		--no-loadscope-reorder

lint: dev ## check style, types and module borders
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

format: dev ## put the code into its form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

conformance: dev tools ## run the official suite against URL=..., a server that waits 0.5 s in long-polls
	cd $(CONFORMANCE) && $(WITH_NODE) CONFORMANCE_URL='$(URL)' \
		node node_modules/vitest/vitest.mjs run

bench: install tools .venv-load/.ready ## compare with other servers (ARGS=--help: what can be chosen)
	@$(BIN)/python -m loadtest.bench $(ARGS)

edgebench: install tools ## crowds behind an edge, ours and the Node reference server
	@$(BIN)/python -m loadtest.edge --write $(ARGS)

sparkbench: dev ## how fast Spark reads, what compaction and snapshots give (ARGS=..., SNAPSHOT=--help)
	@$(BIN)/python -m spark.bench $(ARGS)
	@$(BIN)/python -m spark.streaming_bench $(STREAMING)
	@$(BIN)/python -m spark.compaction_bench $(COMPACTION)
	@$(BIN)/python -m spark.snapshot_bench $(SNAPSHOT)

load: install .venv-load/.ready ## use the server as people do: SCENARIO=writers, hot, replay or tokens (UI=1: in a browser)
	@$(BIN)/python -m loadtest.load $(SCENARIO) $(if $(UI),--ui) $(ARGS)

profile: install .venv-load/.ready ## where a worker spends its time: WORKLOAD=append-c64-s1, flame graph as SVG
	@$(BIN)/python -m loadtest.profile $(WORKLOAD) $(ARGS)

LOCK := $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	--custom-compile-command 'make lock' $(UPGRADE)

lock: ## remake the locks from pyproject.toml and package.json (UPGRADE=--upgrade for newer versions)
	@sh infra/bootstrap/venv.sh
	@$(BIN)/python -m pip install --quiet uv
	$(LOCK) pyproject.toml --group build --output-file requirements.lock
	$(LOCK) pyproject.toml --extra spark --group build --group dev --constraints requirements.lock \
		--output-file requirements-dev.lock
	$(LOCK) --group node --output-file requirements-node.lock
	$(LOCK) --group load --output-file requirements-load.lock
	for folder in $(NPM); do \
		(cd $$folder && $(WITH_NODE) npm install --package-lock-only --loglevel=error) || exit 1; \
	done

clean: ## remove everything made here, except ./data
	rm -rf .venv .venv-load build $(NPM:=/node_modules)
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

dev: .venv/.ready-dev
tools: .venv/.ready-tools

.venv/.ready: pyproject.toml requirements.lock infra/bootstrap/venv.sh
	@sh infra/bootstrap/venv.sh
	@echo "installing ds-server into .venv"
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.ready-dev: .venv/.ready requirements-dev.lock
	@echo "installing what the tests need into .venv"
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

# Without Java it is tried again next time, and the tests say what they lack.
.venv/.ready-java: .venv/.ready-dev tests/support/class_archive.py
	@echo "archiving what Java loads for Spark"
	@if PYTHONPATH=tests $(BIN)/python -m support.class_archive >/dev/null 2>&1; then touch $@; fi

.venv-load/.ready: requirements-load.lock .venv/.ready
	@echo "installing what the load tests need into .venv-load"
	@$(BIN)/python -m venv --clear .venv-load
	@.venv-load/bin/python -m pip install --quiet --require-hashes -r requirements-load.lock
	@touch $@

# Not complete is not an error here: it is tried again next time, and the tests say what they lack.
.venv/.ready-tools: .venv/.ready requirements-node.lock $(NPM:=/package-lock.json) \
		infra/bootstrap/test-tools.sh
	@if sh infra/bootstrap/test-tools.sh; then touch $@; fi
