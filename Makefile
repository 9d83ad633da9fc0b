# Everything a fresh machine needs is Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs

.PHONY: demo test test-slow test-lowest bench docs figures dist reproduce clean

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("squeak needs Python 3.11 or newer; set PYTHON=") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,demo,river]' -c constraints/newest.txt
	@touch $@

.browser:           # the tests of the report look at it in Chromium; where it cannot be had they are skipped
	@command -v chromedriver >/dev/null 2>&1 || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 \
		&& apt-get update -qq >/dev/null 2>&1 \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=120 --no-install-recommends chromium chromium-driver \
		>/dev/null 2>&1; } || echo "no Chromium here: the report's browser tests will be skipped"
	@touch $@

demo: $(STAMP)      ## stream a year of flights through SQUEAK; leaves demo/
	$(BIN)/squeak demo --out demo

test: $(STAMP) .browser  ## ruff, mypy, import rules, doctests, contract suite, all tests but the slow ones
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2

test-slow: $(STAMP) ## the long statistical runs
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2

test-lowest:        ## the same tests on the oldest versions we promise
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints/lowest.txt
	OPENBLAS_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -m "not slow" -n 2

$(VENV)/.bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,demo,river,bench]' -c constraints/newest.txt
	@touch $@

bench: $(VENV)/.bench ## against the peers, which it installs; ratios in one run, tables and pictures; see benchmarks/README.md
	$(BIN)/python -m benchmarks

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]' -c constraints/newest.txt
	@touch $@

docs: $(DOCS_STAMP) ## the site, with every example run and every link checked: docs/_build/html/index.html
	OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build -q -W --keep-going -n -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

dist: $(STAMP)      ## wheel and sdist, in dist/
	$(BIN)/python -m build

figures: $(STAMP)   ## draw the pictures of README and docs/ anew
	$(BIN)/python docs/figures/draw.py

reproduce: $(STAMP) ## what the papers report, measured again; see reproduce/README.md
	$(BIN)/python -m reproduce

clean:
	rm -rf $(VENV) .venv-lowest .browser demo build dist docs/_build docs/gallery docs/api/generated
