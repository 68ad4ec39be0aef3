# The verbs of the repository; each installs what it needs, so that any of them works first on a fresh machine.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
EXTRAS := worker,server,dashboard,otel,gp,dev

.PHONY: setup demo test test-e2e screenshots benchmark-dashboard test-gpu fuzz test-engines test-fuzz test-simulation test-cluster test-compose reliability lint format serve benchmark clean

setup: $(VENV)/.all  ## install everything but the gpu extra into .venv

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "captune needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml requirements.lock
	$(PIP) install -c requirements.lock -e .
	@touch $@

$(VENV)/.all: $(VENV)/bin/python pyproject.toml requirements.lock
	$(PIP) install -c requirements.lock -e '.[$(EXTRAS)]'
	@touch $(VENV)/.core $@

demo: $(VENV)/.core  ## trace -> tuned list -> export on the bundled sample
	@$(BIN)/captune demo

test: $(VENV)/.all  ## units, both databases, local Ray, a short path in a real browser
	@tests/e2e/ensure_browser.sh
	$(BIN)/pytest -n 2 --dist loadfile

test-e2e: $(VENV)/.all  ## all browser tests, the long ones too
	@tests/e2e/ensure_browser.sh
	$(BIN)/pytest tests/e2e -m e2e

screenshots: $(VENV)/.all  ## every page after a real measurement, light and dark, wide and narrow, into docs/screenshots
	@tests/e2e/ensure_browser.sh
	CAPTUNE_SCREENSHOTS=1 $(BIN)/pytest tests/e2e/test_fleet.py tests/e2e/test_pages.py -m e2e

benchmark-dashboard: $(VENV)/.all  ## how fast every page is over a full database; writes docs/dashboard.md
	@tests/e2e/ensure_browser.sh
	$(BIN)/python benchmarks/dashboard.py

test-gpu: $(VENV)/.all  ## what needs a CUDA device
	$(BIN)/pytest tests/gpu -m gpu

test-engines: $(VENV)/.all  ## our engine rules against released vLLM and SGLang packages (downloads about 1 GB)
	$(BIN)/pytest -s tests/engines_real/check_vllm.py tests/engines_real/check_sglang.py tests/engines_real/check_probe.py

test-fuzz: $(VENV)/.all  ## the API against schemathesis, at length (FUZZ_EXAMPLES=N; about ten minutes)
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-100} $(BIN)/pytest tests/services/api/test_openapi.py

test-simulation: $(VENV)/.all  ## 14,000 random cases of the simulation against the plain schedulers (minutes)
	$(BIN)/pytest tests/workloads/serving -m slow --timeout 900

fuzz: $(VENV)/.all  ## 20,000 broken files for each of five reader families, in limited children (minutes)
	$(BIN)/python -m tests.fuzz.run

test-compose: $(VENV)/.all  ## every service of docker-compose.yml as a process, the main job through all of them
	$(BIN)/pytest tests/compose -m slow

test-cluster: $(VENV)/.all  ## a Ray cluster of several nodes on this machine; a node and the head are killed; engines on Ray
	$(BIN)/pytest tests/cluster tests/services/capture/probes tests/services/cli/test_verify_engine.py -m slow

reliability: $(VENV)/.all  ## kills, a crowd, and outages (about ten minutes); writes docs/reliability.md
	$(BIN)/python -m tests.reliability.run --kills 100 --clients 200 --seconds 120 --outage 30

lint: $(VENV)/.all  ## style, types, import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

serve: $(VENV)/.all  ## API, runner and dashboard on this machine
	$(BIN)/captune serve

benchmark: $(VENV)/.all  ## timings as ratios within one run
	$(BIN)/python benchmarks/solve.py
	$(BIN)/python -m benchmarks.decide
	$(BIN)/python benchmarks/simulate.py
	$(BIN)/python benchmarks/read_trace.py csv
	$(BIN)/python benchmarks/read_trace.py log

clean:
	rm -rf $(VENV)
