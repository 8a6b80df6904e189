PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := tests/incidents/demo.yaml
SPEED ?= 20
LISTEN ?= 127.0.0.1:9440

TORCH ?= 2.4.1 2.6.0 2.8.0 2.10.0 2.13.0

.PHONY: help demo test test-long torch-matrix lint scoreboard bench bench-hooks pictures clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(VENV)/agent: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[agent]'
	@touch $@

$(VENV)/dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/agent  ## the agent on a replayed incident, page on http://127.0.0.1:9440
	$(BIN)/gpudiag agent --replay $(DEMO) --speed $(SPEED) --listen $(LISTEN)

lint: $(VENV)/dev  ## style, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint  ## all checks, small counts
	$(BIN)/pytest -n 3 -m 'not long'

test-long: lint  ## the full counts: fuzz, soak
	$(BIN)/pytest -n 2

torch-matrix:  ## the hooks' tests on each release of TORCH="2.6.0 2.8.0", by hand: gigabytes each
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; failed=; for torch in $(TORCH); do \
	    echo "torch $$torch"; \
	    $(PYTHON) -m venv --clear "$$folder" && \
	    "$$folder"/bin/pip install --quiet --disable-pip-version-check --editable . \
	        "torch==$$torch" pytest pytest-timeout && \
	    "$$folder"/bin/pytest -W default tests/probes/torch || failed="$$failed $$torch"; \
	done; test -z "$$failed" || { echo "failed on$$failed"; exit 1; }

scoreboard: $(VENV)/dev  ## how often the rules are right on the recorded incidents
	$(BIN)/python -m tests.scoreboard

bench: $(VENV)/dev  ## figures beside nvitop-exporter, and the cost of each part
	$(BIN)/pip install --quiet --disable-pip-version-check nvitop-exporter==1.7.2
	$(BIN)/python benchmarks/run.py

bench-hooks: $(VENV)/dev  ## what the hooks add to a step, beside traceml-ai; a quarter of an hour
	$(BIN)/pip install --quiet --disable-pip-version-check traceml-ai==0.5.0
	$(BIN)/python benchmarks/beside_traceml.py
	$(BIN)/python benchmarks/hook_cost.py --step-ms 10 --work

pictures: $(VENV)/dev  ## what the page and the dashboards look like, of replayed incidents
	GPUDIAG=$(BIN)/gpudiag tests/pictures/page.sh
	$(BIN)/python -m tests.pictures

clean:  ## remove what these targets made
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
