# make deck builds the deck, make test passes the tests; both set up .venv inside the clone first.
# One group of tests that fails does not hide the next: all are run, and make ends with an error.
MAKEFLAGS += --keep-going
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
TESTED := $(VENV)/.ready-for-tests
PYTEST := $(PY) -m pytest -n 2 --dist loadgroup

.PHONY: deck pdf test test-slow slow check falsify mutants lint style types present bench clean
.NOTPARALLEL:

deck: $(READY)
	$(PY) build/regen_all.py

pdf: $(READY)
	$(PY) build/regen_all.py --pdf

test: $(TESTED)
	$(PYTEST) -m "not slow"
	@echo "left out: interrupted builds, kills, full disks, real servers' lives, LibreOffice, hostile sentences through every slide," \
	      "long searches, lint and types; they take some ten minutes more: make test-slow"

test-slow: lint slow

slow: $(TESTED)
	$(PYTEST) -m "slow or hypothesis"

check: $(READY)
	$(PY) build/regen_all.py --check

falsify: $(READY)
	PYTHONPATH=build $(PY) -m doubt.falsify

mutants: $(READY)
	PYTHONPATH=build $(PY) -m doubt.mutants

lint: style types

style: $(TESTED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(TESTED)
	$(PY) -m mypy

present: $(READY)
	PYTHONPATH=build $(PY) -m pipeline.deck.present $(if $(DECK),--deck "$(DECK)")

bench: $(READY)
	@$(PYTHON) build/install.py $(VENV) build/bench-requirements.txt
	$(PY) build/bench.py

$(READY): build/requirements.txt build/constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 3; }
	@TORCH_INDEX="$(TORCH_INDEX)" $(PYTHON) build/install.py $(VENV) build/requirements.txt
	@touch $@

$(TESTED): $(READY) tests/requirements.txt
	@$(PYTHON) build/install.py $(VENV) tests/requirements.txt
	@touch $@

clean:
	rm -rf $(VENV) my-deck build/.sources.json .pytest_cache .ruff_cache .mypy_cache .hypothesis figures/.staging figures/.lock figures/.lock.holder
	find build tests -name __pycache__ -type d -exec rm -rf {} +
