# Posthouse: `make demo` shows it, `make test` proves it; both set everything up in .venv first.
# Needs python3 (3.11 or newer, with venv), make and a package index. Nothing else, no root.

PYTHON        ?= python3
WORKERS       ?= 3
UNSTABLE      ?= 3
FUZZ_SECONDS  ?= 60
SEED          ?= $(shell date +%s)
MUTANTS_ARGS  ?=
BENCH_ARGS    ?=
RULES         ?= 60
CONFORMANCE_ARGS ?=

# Where several are installed, the one that was built with optimisation; one you name is used.
CHOSEN = $(if $(filter file,$(origin PYTHON)),$$($(PYTHON) tools/choose_python.py),'$(PYTHON)')

VENV  := .venv
PY    := $(VENV)/bin/python
READY := $(VENV)/.ready
GSSAPI := gssapi==1.12.0 decorator==5.3.1
CHECKED := src tools tests $(wildcard benchmarks fuzz examples)
TYPED   := src/posthouse $(wildcard src/pyspark_posthouse) tools $(wildcard benchmarks fuzz examples)

# `make test` does the first before its tests, and the second beside them: many of them wait.
STYLE = $(PY) -m ruff check $(CHECKED) && $(PY) -m ruff format --check $(CHECKED)
TYPES = $(PY) -m mypy --strict $(TYPED)

# Hundreds of processes start in a run of the tests: none compiles again what another has.
unexport PYTHONDONTWRITEBYTECODE

# A virtual environment made in another folder would run that folder's sources, and one whose
# python3 has been upgraded away runs nothing: both are set up again.
ifneq ($(shell $(PY) -c 'print(open("$(READY)").read().strip())' 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif

.PHONY: help demo test lint bench bench-peers bench-goals soak any-spark fuzz peers kerberos docs client site conformance conformance-audit mutants clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(READY) ## sets everything up and runs the main job end to end
	@$(VENV)/bin/posthouse demo

test: $(READY) ## sets everything up and passes the whole test suite
	@$(PY) -m tests.fast_java & $(PY) -m pytest --collect-only -qq >/dev/null & \
	  $(STYLE); styled=$$?; wait; exit $$styled
	@$(TYPES) & types=$$!; \
	  $(PY) -m tools.run_tests --unstable $(UNSTABLE) -- \
	  -q -n $(WORKERS) --dist worksteal --durations 30 --durations-min 5; tested=$$?; \
	  wait $$types || { echo 'mypy has failed; its words are above'; exit 1; }; exit $$tested

lint: $(READY) ## style, format and types
	@$(STYLE)
	@$(TYPES)

bench: $(READY) ## measures store, engine and server, and SQLite and LMDB beside them (BENCH_ARGS)
	@$(VENV)/bin/posthouse bench $(BENCH_ARGS)

bench-peers: $(READY) ## measures Posthouse beside RabbitMQ, Redis, NATS and PostgreSQL (BENCH_ARGS)
	@$(PY) -m benchmarks.peers $(BENCH_ARGS)

bench-goals: $(READY) ## measures peers and SRMP twice and prints every goal, row by row (BENCH_ARGS)
	@$(PY) -m benchmarks.goal_runs --keep build/bench-goals --runs 2 $(BENCH_ARGS)

soak: $(READY) ## the long doses of the property and simulation tests (SEED)
	@echo "soak with seed $(SEED); replay with: make soak SEED=$(SEED)"
	@POSTHOUSE_SOAK=1 $(PY) -m pytest -q -n $(WORKERS) --dist worksteal --timeout 7200 --hypothesis-seed $(SEED)
	@$(PY) -m tools.spark_packages pyspark-4.2
	@PYTHONPATH='$(CURDIR)/$(VENV)/pyspark-4.2' $(PY) -m pytest -q -n $(WORKERS) --dist worksteal tests/spark

any-spark: $(READY) ## Spark Connect, PySpark 4.2, and a cluster without a shared disk
	@$(PY) -m tools.spark_packages connect pyspark-4.2
	@POSTHOUSE_ANY_SPARK=1 $(PY) -m pytest -q -n 2 --dist loadfile --durations 5 tests/any_spark

fuzz: $(READY) ## every fuzz/fuzz_*.py for FUZZ_SECONDS each (SEED)
	@$(PY) -m tools.fuzz --seconds $(FUZZ_SECONDS) --seed $(SEED) --workers $(WORKERS)

peers: ## (root) installs the real peers that tests and benchmarks use
	@$(PYTHON) -m tools.peers install
	@test ! -O . || $(MAKE) --no-print-directory kerberos

kerberos: $(READY) ## builds the extra `kerberos` into .venv; `make peers` installs what that needs
	@$(PY) -c 'import gssapi' 2>/dev/null || { echo 'building gssapi (a minute, once)'; \
	  $(PY) -m pip install -qq --disable-pip-version-check $(GSSAPI); }

docs: $(READY) ## regenerates docs/conformance.md from the tests
	@$(PY) -m tools.conformance

client: $(READY) ## the wheel posthouse-client in build/dist: the clients, with three dependencies
	@$(PY) -m tools.client_package

site: $(READY) ## the documentation as a site with search, in build/site; it needs no network to be read
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet
	@echo 'open build/site/index.html in a browser'

conformance: $(READY) ## runs the tests of rules and doors, and writes which of them prove a rule
	@$(PY) -m tools.conformance_evidence $(CONFORMANCE_ARGS) -n $(WORKERS) --dist worksteal

conformance-audit: $(READY) ## plants a fault for RULES random rules and sees whether tests notice
	@$(PY) -m tools.conformance_audit --rules $(RULES) --workers $(WORKERS) \
	  --report .conformance/audit.txt

mutants: $(READY) ## breaks recent lines one by one and looks which tests notice (MUTANTS_ARGS)
	@$(PY) -m tools.mutants --workers $(WORKERS) $(MUTANTS_ARGS)

clean: ## removes .venv and every cache
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis
	find $(CHECKED) -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo 'Posthouse needs Python 3.11 or newer as $(PYTHON): install the package python3,'; \
	  echo 'or name another one: make PYTHON=python3.12 ...'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo '$(PYTHON) lacks venv: install the Debian package python3-venv (as root: apt-get install python3-venv)'; exit 1; }
	@echo 'setting up $(VENV) (once; again when requirements.lock or pyproject.toml changes)'
	@$(PY) -c '' 2>/dev/null || { chosen=$(CHOSEN) && "$$chosen" -m venv $(VENV); }
	@$(PY) -m pip install -qq --disable-pip-version-check -r requirements.lock
	@$(PY) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@echo '$(CURDIR)' > $@
