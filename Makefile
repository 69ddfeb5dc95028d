# One word an action. Everything happens in .venv; delete it to begin anew.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# What `make bench` is given, such as BENCH="--only step --only dqn".
BENCH ?=
# For how long `make simulate` draws fresh seeds.
MINUTES ?= 10

# Tests write in memory where there is plenty of it: at every event a study waits for its disk.
FREE_GB := $(shell df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -1)
ifeq ($(shell test "$(FREE_GB)" -ge 8 2>/dev/null && echo plenty),plenty)
export PYTEST_DEBUG_TEMPROOT := /dev/shm
endif

# Processes of tests start sooner where Python keeps what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

# As many as there are cores, each with one thread; a module's tests mostly stay together.
BESIDE := --numprocesses auto --dist worksteal
# Slow tests of a file share a study that takes as long as they do, so they stay together. They wait
# for processes that they start, for pauses and for a clock, so there are two more.
TOGETHER := --numprocesses $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2) --dist loadfile --no-loadscope-reorder

FAST := not slow and not exhaustive and not slurm

# plotly.js without maps and three dimensions, which the Python package does not have; of the version
# that plotly in constraints.txt holds. Pages take it where it is there.
SMALLER_PLOTLY := https://registry.npmjs.org/plotly.js-cartesian-dist-min/-/plotly.js-cartesian-dist-min-4.1.1.tgz
define TAKE_SMALLER_PLOTLY
mkdir -p $(VENV)/share/hpsearch && cd $(VENV)/share/hpsearch \
	&& $(abspath $(BIN))/python -c "import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1], timeout=30).read())" \
		$(SMALLER_PLOTLY) 2>/dev/null | tar -xzO package/plotly-cartesian.min.js >plotly.js 2>/dev/null \
	&& echo "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a  plotly.js" \
	| sha256sum --check --status && mv plotly.js plotly-cartesian.min.js
endef

PSIJ := psij-python pystache typeguard

# What says within a minute whether the maths and the decisions are still right.
QUICK := tests/game tests/population tests/audit tests/test_imports.py tests/test_readme.py \
	tests/test_schema.py tests/test_yaml_file.py tests/trainers/test_config.py tests/trainers/test_dqn.py \
	tests/trainers/test_gae.py tests/trainers/test_ppo.py tests/study/test_events.py \
	tests/study/test_observe.py tests/study/test_policy.py tests/study/test_requests.py \
	tests/study/test_space.py tests/study/test_spec.py tests/study/test_state.py tests/study/test_trials.py

.PHONY: install dev quickstart quick test loops slow beside alone exhaustive slurm simulate bench model-check lint format types layers check docs clean

install: $(VENV)/.installed            ## hpsearch and what it needs, in tested versions
dev: $(VENV)/.dev                      ## and what its tests need

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dashboard,monitor,plots]'
	$(BIN)/python -m hpsearch.trainers.kernel_cache
	@$(TAKE_SMALLER_PLOTLY) || rm -f $(VENV)/share/hpsearch/plotly.js
	@test -f $(VENV)/share/hpsearch/plotly-cartesian.min.js || echo "$(SMALLER_PLOTLY) cannot be had; pages of hpsearch report take 2.3 MB instead of 1"
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	# PSI/J asks for older versions of two packages than pre-commit does, and works with these; its
	# tests are skipped where it cannot be had.
	-$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps $(PSIJ)
	touch $@

quickstart: install                    ## a whole study on this machine, about two minutes
	$(BIN)/hpsearch run studies/quickstart.yaml

quick: dev lint                        ## within a minute: the maths and the decisions
	$(BIN)/python -m pytest $(BESIDE) -q -m "$(FAST)" $(QUICK)

# In a fresh clone types take one core for half a minute, and numba's compiler another one: once, as
# otherwise each process of the tests would compile the same loops at the same time.
test: dev lint layers                  ## and types, and everything but the slow tests
	@$(MAKE) --no-print-directory --jobs 2 types loops
	$(BIN)/python -m pytest $(BESIDE) --durations=10 -m "$(FAST)"

loops: dev                             ## the game's loops, compiled once and kept, for half a minute
	$(BIN)/python -m pytest -q -m "$(FAST)" -k cpu tests/contract/test_kernels.py

slow: beside alone                     ## the tests that take longer

beside: dev                            ## of these, those that may run beside others
	$(BIN)/python -m pytest $(TOGETHER) --durations=10 -m "slow and not exhaustive and not alone and not slurm"

alone: dev                             ## and those that measure time
	$(BIN)/python -m pytest --durations=10 -m "slow and alone and not slurm"

exhaustive: dev                        ## every combination of what the slow tests try a few of
	$(BIN)/python -m pytest $(BESIDE) -m exhaustive

slurm: dev                             ## the tests on a SLURM cluster that they bring up; needs root
	$(BIN)/python -m pytest --durations=10 -m "slurm and not exhaustive"

simulate: dev                          ## studies on which everything fails, fresh seeds for MINUTES
	$(BIN)/python tests/simulate.py --minutes $(MINUTES)

bench: dev                             ## what is fast, side by side with plain ways; on a quiet machine
	$(BIN)/python tests/benchmarks/bench.py $(BENCH)

model-check:                           ## the drivers' protocol in TLA+, by TLC; see docs/protocol
	@test -f "$(TLA2TOOLS_JAR)" || { echo "set TLA2TOOLS_JAR to a tla2tools.jar, see docs/protocol/README.md"; exit 1; }
	cd docs/protocol && for model in hpsearch liveness; do \
		java -XX:+UseParallelGC -cp "$(abspath $(TLA2TOOLS_JAR))" tlc2.TLC -workers auto -noGenerateSpecTE \
			-metadir "$$(mktemp -d)" -config $$model.cfg hpsearch.tla || exit 1; \
	done

check: lint types layers               ## what needs no running

docs: dev                              ## the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: dev
	$(BIN)/mypy

layers: dev                            ## imports run downward only
	$(BIN)/lint-imports

format: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
