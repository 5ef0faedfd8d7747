# Requirements: python3 (3.11 or newer), pip, make, git; node and npm for some of the tests.
# With PYTHON=..., such as PYTHON=python3.13, a command uses an environment for that interpreter: .venv-3.13,
# or .venv-3.13t for a free-threaded build.
# With LOCKED=1, new environments of the tests have the versions of release/lock/test.txt, by their hashes.
PYTHON ?= python3
ifeq ($(origin PYTHON),command line)
VERSION := $(shell $(PYTHON) -c 'import sys; print("{}.{}".format(*sys.version_info) + getattr(sys, "abiflags", ""))')
VENV := .venv-$(or $(VERSION),$(error cannot run PYTHON=$(PYTHON)))
else
VENV := .venv
endif
BIN := $(VENV)/bin
COVERAGE =
# uv, if it is installed, takes a few seconds where pip takes tens. Modules are compiled when they are first imported.
UV := $(shell command -v uv)
PIP := $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check)
TOOLS := .venv-tools
LINT := .venv-lint
LOCK = $(TOOLS)/bin/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --no-annotate $(if $(UPGRADE),--upgrade)

.PHONY: demo test coverage test-frameworks test-fastmcp test-clients conformance gateway openapi openapi-examples scale modules check docs site bench release lint-release audit lock clean

demo: $(VENV)/.demo       ## call the tools of the demo as a client, then open their page (ONCE=1: only call)
	$(BIN)/python config/demo_client.py $(if $(ONCE),--once)

test: $(VENV)/.test       ## all tests (TESTS="tests/cli": only these)
	COVERAGE_FILE="$(CURDIR)/.coverage" $(BIN)/python -m pytest $(TESTS) -n 4 --dist loadscope --max-worker-restart 0 $(COVERAGE)

coverage: COVERAGE = --cov --cov-branch --cov-report=term
coverage: test            ## all tests, with branch coverage, which takes three times as long before Python 3.14

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
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/lint-imports --no-cache
	$(BIN)/python docs/generate.py --check
	$(BIN)/python -m tests.kits.reading mcp_bridge

docs: $(VENV)/.test       ## update the generated pages and the settings' JSON Schema
	$(BIN)/python docs/generate.py

site: $(VENV)/.site       ## build the documentation as a website, in strict mode, into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(VENV)/.bench     ## compare with the SDK's server and FastMCP in one run
	$(BIN)/python -m benchmarks.run $(BENCH)

release: $(TOOLS)/.ready  ## build into dist/ everything that is published, and try it in a clean environment
	$(TOOLS)/bin/python release/build.py

lint-release: $(LINT)/.ready ## check the image definitions, the Helm chart and the workflows
	$(LINT)/bin/python release/lint.py

audit: $(TOOLS)/.ready    ## look up known vulnerabilities of the locked dependencies (needs the network)
	$(TOOLS)/bin/python release/audit.py

lock: $(TOOLS)/.ready     ## update the locked dependencies for pyproject.toml (UPGRADE=1: all to their newest versions)
	$(LOCK) pyproject.toml -o release/lock/core.txt
	$(LOCK) pyproject.toml $(addprefix --extra ,jwt oauth openapi prometheus rate-limit redact tasks uvloop) -o release/lock/image.txt
	$(LOCK) pyproject.toml --extra test -o release/lock/test.txt
	$(LOCK) release/lock/tools.in -o release/lock/tools.txt
	$(LOCK) release/lock/lint.in -o release/lock/lint.txt

clean:
	rm -rf .venv .venv-3.* .venv-frameworks .venv-tools .venv-lint .node .coverage* build dist

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mcp-bridge needs Python 3.11 or newer. Add PYTHON=python3.12")'
	$(if $(UV),$(UV) venv --quiet --seed --allow-existing --python $(PYTHON),$(PYTHON) -m venv) $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[testing]'
	@touch $@

$(VENV)/.test: pyproject.toml mcp_bridge/_version.py | $(VENV)/bin/python
	$(if $(LOCKED),$(PIP) --no-deps --require-hashes -r release/lock/test.txt)
	$(PIP) -e '.[test]'
	@touch $@ $(VENV)/.demo

$(VENV)/.site: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[site]'
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	$(PIP) -e '.[bench]'
	@touch $@

$(TOOLS)/.ready $(LINT)/.ready: .venv-%/.ready: release/lock/%.txt
	$(PYTHON) -m venv --clear .venv-$*
	.venv-$*/bin/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@
