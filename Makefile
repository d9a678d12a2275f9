# One door for a newcomer: `make demo` and `make test` set up whatever they need; `make` alone says what there is.
# The environment is .venv, made from requirements.lock with uv where it exists, else with python3's own venv and pip.

PYTHON ?= python3
BIN := .venv/bin
NEW_ENOUGH := 'import sys; sys.exit(sys.version_info < (3, 11))'
export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types walk crash crash-all crash-sample walk-sample contract picture bench
.DELETE_ON_ERROR:

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/installed ## make .venv: the locked tools and nightcrew itself, editable

demo: setup ## see a task land: scripted agents on a small project, everything around them real
	@$(BIN)/nightcrew demo

# More workers than cores: a story waits for disks and processes much of the time.
test: setup ## run all tests: units, whole stories, architecture
	$(BIN)/pytest -n 4 --dist worksteal

check: lint types test walk-sample crash-sample ## everything that must be green: format, lint, floors, types, docs, tests, the walk, a sample of deaths

lint: setup ## formatting, lint rules and the import floors
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo

crash: setup ## kill nightcrew in every kind of moment, resume, compare with a run that was not killed
	@PYTHONPATH=tests $(BIN)/python -m crash.sweep classes

crash-all: setup ## the same at every moment that can be told apart
	@PYTHONPATH=tests $(BIN)/python -m crash.sweep all

crash-sample:
	@PYTHONPATH=tests $(BIN)/python -m crash.sweep sample

walk-sample: setup
	@PYTHONPATH=tests $(BIN)/python tests/walk.py small

contract: setup ## the real agent programs against a model service on loopback
	HANG=240 $(BIN)/pytest -n 2 tests/contract

walk: setup ## visit every state of small runs, with a larger bound than the tests have
	@PYTHONPATH=tests $(BIN)/python tests/walk.py

picture: setup ## draw the pictures of docs/: a run of the demo, and the ladder of recovery
	$(BIN)/python tools/picture.py
	$(BIN)/python tools/ladder.py

bench: setup ## print the figures as ratios, measured in one run
	@$(BIN)/python bench/figures.py

types: setup ## strict types of the sources and the tests
	$(BIN)/mypy

# Two marks: a new lock makes the environment anew, a changed project file only installs the project again.
.venv/installed: pyproject.toml .venv/locked
	@if command -v uv >/dev/null; then \
		uv pip install --quiet --python $(BIN)/python --no-build-isolation --no-deps --editable .; \
	else \
		$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null || exit 1; \
		PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --no-index --no-build-isolation --no-deps --editable .; \
	fi
	@touch $@

.venv/locked: requirements.lock
	@command -v git >/dev/null || { echo "nightcrew needs git 2.38 or newer: there is no git on PATH"; exit 1; }
	@git --version | awk '{ split($$3, v, "."); if (v[1] < 2 || (v[1] == 2 && v[2] < 38)) \
		{ print "nightcrew needs git 2.38 or newer: this is " $$3; exit 1 } }'
	@rm -rf .venv
	@if command -v uv >/dev/null; then \
		$(PYTHON) -c $(NEW_ENOUGH) 2>/dev/null && found=$(PYTHON) || found='>=3.11'; \
		uv venv --quiet --python "$$found" .venv \
			&& uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements.lock; \
	else \
		$(PYTHON) -c $(NEW_ENOUGH) 2>/dev/null \
			|| { echo "nightcrew needs Python 3.11 or newer, or uv: '$(PYTHON)' is neither (make PYTHON=/path/to/python3 names another)"; exit 1; }; \
		$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
			|| { echo "nightcrew needs Python's venv module (Debian: apt install python3-venv), or uv"; exit 1; }; \
		$(PYTHON) -m venv .venv \
			&& $(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock; \
	fi
	@touch $@
