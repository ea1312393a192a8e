# Every target makes what it needs. The two a newcomer wants: make demo, make test.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KUBE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/corral/kube
JOBS ?= 2
PYTEST := KUBE_TOOLS=$(KUBE)/bin $(BIN)/python -m pytest -q

.PHONY: acceptance help install demo test lint format bench soak sbom audit docs sdk frameworks kube-tools build clean

help:            ## say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

install: $(STAMP) ## make the environment in .venv

$(STAMP): pyproject.toml constraints.txt tools/build_schemas.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q src
	touch $@

demo: install    ## run jobs end to end on a manager and two workers, and exit
	$(BIN)/corral demo

test: install    ## run every test but the soaks
	$(PYTEST) -n $(JOBS) --dist loadfile tests

lint: install    ## formatting, lint, types, layers
	$(BIN)/ruff format --check src tests bench tools
	$(BIN)/ruff check src tests bench tools
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install  ## put the code into form
	$(BIN)/ruff format src tests bench tools
	$(BIN)/ruff check --fix src tests bench tools

bench: install   ## run the benchmarks; results go to bench/RESULTS.md by hand
	$(BIN)/python -m bench

soak: install    ## the long runs: crash tests, faults of dispatch and placement with many seeds, mutants of recordings, a million requests of noise
	CORRAL_SOAK=1 $(PYTEST) -n $(JOBS) -m soak --timeout 0 tests

sbom: install    ## write what is installed to dist/sbom.json (CycloneDX)
	mkdir -p dist
	$(BIN)/python tools/sbom.py > dist/sbom.json

audit: install   ## look the dependencies up among known vulnerabilities, where a database can be reached
	$(BIN)/python tools/audit.py constraints.txt

docs: install    ## check that every command and link in the documentation holds
	$(PYTEST) tests/docs

sdk:             ## the job SDKs that tests/clients drive, in an environment of their own
	test -x .venv-sdk/bin/python || $(PYTHON) -m venv .venv-sdk
	.venv-sdk/bin/python -m pip install --quiet --require-hashes --requirement constraints-sdk.txt

acceptance: install ## other projects' own end-to-end suites against fleets started for them (needs Go and kubectl)
	$(BIN)/python -m tools.acceptance $(SUITES)

frameworks:      ## torch and Ray for tests/e2e/test_frameworks.py, in an environment of their own (2 GB)
	test -x .venv-frameworks/bin/python || $(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet torch numpy 'ray[default,serve]'

kube-tools:      ## build real kube-apiserver, etcd and kubectl for comparison (needs Go)
	tools/kube-tools $(KUBE)

build: install   ## build the wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:           ## remove what the targets made
	rm -rf $(VENV) .venv-sdk .venv-frameworks build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
