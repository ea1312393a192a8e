# Every target makes what it needs. The two a newcomer wants: make demo, make test.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KUBE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/corral/kube
# One more than two cores have: real processes are waited for most of the time.
JOBS ?= 3
# The order of tests and the examples of properties are the same whenever they are run; SEED=N draws others.
SEED ?= 109972993
PYTEST := KUBE_TOOLS=$(KUBE)/bin $(BIN)/python -m pytest -q -p randomly --randomly-seed=$(SEED) --hypothesis-seed=$(SEED)

.PHONY: acceptance differential help install demo test lint format bench soak sbom audit docs sdk frameworks kube-tools helm kueue deploy dist clean

help:            ## say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

install: $(STAMP) ## make the environment in .venv

$(STAMP): pyproject.toml constraints.txt tools/build_schemas.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	$(BIN)/python -m compileall -q src
	touch $@

demo: install    ## run jobs end to end on a manager and two workers, and exit
	$(BIN)/corral demo

test: install    ## run every test but the soaks
	$(PYTEST) -n $(JOBS) --dist loadfile --no-loadscope-reorder tests

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

soak: JOBS = $(shell nproc)
soak: install    ## the long runs, on every core: kills, faults with many seeds, mutants of recordings, noise; CORRAL_SOAK_SECONDS=N begins none after N s
	CORRAL_SOAK=1 $(PYTEST) -n $(JOBS) --maxschedchunk 1 -m soak --timeout 0 tests

sbom: install    ## write what is installed to dist/sbom.json (CycloneDX)
	mkdir -p dist
	$(BIN)/python tools/sbom.py > dist/sbom.json

audit: install   ## look the dependencies up among known vulnerabilities, where a database can be reached
	$(BIN)/python tools/audit.py constraints.txt

docs: install    ## check that every command and link in the documentation holds
	$(PYTEST) tests/docs

sdk:             ## the job SDKs that tests/clients drive, in an environment of their own
	test -x .venv-sdk/bin/python || $(PYTHON) -m venv .venv-sdk
	.venv-sdk/bin/python -m pip install --quiet --no-deps --require-hashes --requirement constraints-sdk.txt

acceptance: install ## other projects' own end-to-end suites against fleets started for them (needs Go and kubectl)
	KUBE_TOOLS=$(KUBE)/bin $(BIN)/python -m tools.acceptance $(SUITES)

differential: install ## the same random scenarios on Corral and on Kueue's own scheduler (needs Go and `make kube-tools`)
	KUBE_TOOLS=$(KUBE)/bin $(BIN)/python -m tools.differential $(DIFFERENTIAL)

frameworks:      ## torch and Ray for tests/e2e/test_frameworks.py, in an environment of their own (2 GB)
	test -x .venv-frameworks/bin/python || $(PYTHON) -m venv .venv-frameworks
	.venv-frameworks/bin/python -m pip install --quiet torch numpy 'ray[default,serve]'

kube-tools:      ## build real kube-apiserver, kube-controller-manager, etcd and kubectl for comparison (needs Go)
	tools/kube-tools $(KUBE)

helm:            ## build helm, for the tests that render the chart (needs Go)
	tools/helm $(KUBE)

kueue:           ## build Kueue's own manager and kueuectl, for the tests that run beside them (needs Go)
	tools/kueue $(KUBE)

deploy: install  ## write what is generated under deploy/: roles, board, plain manifests (needs helm)
	KUBE_TOOLS=$(KUBE)/bin $(BIN)/python -m tools.deployment

dist: install    ## build the wheel and the sdist into dist/
	$(BIN)/python -m hatchling build --directory dist

clean:           ## remove what the targets made
	rm -rf $(VENV) .venv-sdk .venv-frameworks build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
