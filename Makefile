# Requirements: python3 (3.11 or newer), pip, make, git; node and npm for some of the tests.
# With PYTHON=..., such as PYTHON=python3.13, a command uses an environment for that interpreter: .venv-3.13,
# or .venv-3.13t for a free-threaded build.
PYTHON ?= python3
ifeq ($(origin PYTHON),command line)
VERSION := $(shell $(PYTHON) -c 'import sys; print("{}.{}".format(*sys.version_info) + getattr(sys, "abiflags", ""))')
VENV := .venv-$(or $(VERSION),$(error cannot run PYTHON=$(PYTHON)))
else
VENV := .venv
endif
BIN := $(VENV)/bin
COVERAGE = --cov --cov-report=term
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-frameworks test-fastmcp test-clients conformance gateway openapi openapi-examples scale modules check docs site bench clean

demo: $(VENV)/.demo       ## call the demo's tools over stdio, then serve them over HTTP (ONCE=1: only call)
	$(BIN)/python config/demo_client.py $(if $(ONCE),--once)

test: $(VENV)/.test       ## all tests, with coverage (TESTS="tests/cli": only these; COVERAGE=: without)
	COVERAGE_FILE="$(CURDIR)/.coverage" $(BIN)/python -m pytest $(TESTS) -n 4 --dist loadscope --max-worker-restart 0 $(COVERAGE)

test-frameworks: $(VENV)/.test ## tests of frameworks that need their own environment (FRAMEWORKS="fastmcp": only these)
	$(BIN)/python -m tests.kits.frameworks.environments $(FRAMEWORKS)
	$(if $(FRAMEWORKS),,$(BIN)/python -m tests.kits.frameworks.fastmcp_suite)

test-fastmcp: $(VENV)/.test ## only FastMCP's own tests, with the bridge between its clients and its servers
	$(BIN)/python -m tests.kits.frameworks.fastmcp_suite

test-clients: $(VENV)/.test ## real clients from npm connect to an installed bridge (CLIENTS="gemini-cli": only these; CLIENTS=--gateway: through a gateway)
	$(BIN)/python -m tests.kits.clients.real_clients $(CLIENTS)

conformance: $(VENV)/.test ## the official conformance suite, one line per protocol version
	$(BIN)/python -m tests.kits.conformance.referee

gateway: $(VENV)/.test    ## official servers from npm and PyPI behind a bridge, in both eras
	$(BIN)/python -m tests.kits.upstream.official_servers

openapi: $(VENV)/.test    ## every operation of large public OpenAPI documents, against a mock (OPENAPI="GitHub": only this one)
	$(BIN)/python -m tests.kits.openapi.public_documents $(OPENAPI)

openapi-examples: $(VENV)/.test ## the examples of requests in a thousand public OpenAPI documents (DOCUMENTS=folder: in these)
	$(BIN)/python -m tests.kits.openapi.documented_examples $(DOCUMENTS)

scale: $(VENV)/.test      ## servers and workers on one Redis, killed at random under load (SCALE=--short: in a minute)
	$(BIN)/python -m tests.kits.scale.proof $(SCALE)

modules: $(VENV)/.test    ## public Amplifier modules from git, unmodified, with the official client (CLONES=folder: use these clones)
	$(BIN)/python -m tests.kits.amplifier.public_modules $(if $(CLONES),--clones $(CLONES))

check: $(VENV)/.test      ## lint, formatting, types, import rules, generated pages; prints how the code reads
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/generate.py --check
	$(BIN)/python -m tests.kits.reading mcp_bridge

docs: $(VENV)/.test       ## update the generated pages and the settings' JSON Schema
	$(BIN)/python docs/generate.py

site: $(VENV)/.site       ## build the documentation as a website, in strict mode, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(VENV)/.bench     ## compare with the SDK's server and FastMCP in one run
	$(BIN)/python -m benchmarks.run $(BENCH)

clean:
	rm -rf .venv .venv-3.* .venv-frameworks .node .coverage* build dist

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mcp-bridge needs Python 3.11 or newer. Add PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[testing]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[test]'
	@touch $@ $(VENV)/.demo

$(VENV)/.site: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[site]'
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[bench]'
	@touch $@
