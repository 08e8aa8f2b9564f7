# make deck builds the deck, make test passes the tests; both set up .venv inside the clone first.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready

.PHONY: deck pdf test check lint present bench clean

deck: $(READY)
	$(PY) build/regen_all.py

pdf: $(READY)
	$(PY) build/regen_all.py --pdf

# the browser's tests run alone, for they measure its frames
test: $(READY) lint
	$(PY) -m pytest -n 2 --dist loadfile --ignore tests/browser
	$(PY) -m pytest tests/browser

check: $(READY)
	$(PY) build/regen_all.py --check

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

present: $(READY)
	PYTHONPATH=build $(PY) -m pipeline.deck.present $(if $(DECK),--deck "$(DECK)")

bench: $(READY)
	$(PY) build/bench.py

$(READY): build/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 3; }
	@echo "setting up $(VENV) (2 GB; a few minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r build/requirements.txt
	@touch $@

clean:
	rm -rf $(VENV) my-deck build/.sources.json .pytest_cache .ruff_cache .mypy_cache .hypothesis figures/.staging figures/.lock figures/.lock.holder
	find build tests -name __pycache__ -type d -exec rm -rf {} +
