# Everything a fresh machine needs is Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs

.PHONY: demo test checkers tests test-slow test-lowest bench docs figures dist reproduce clean

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

# Compiled once, tests and modules serve both test processes and every process that they start.
PYTEST := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

test: $(STAMP) .browser  ## ruff, mypy, import rules, doctests, contract suite, all tests but the slow ones
	$(MAKE) --no-print-directory -j 2 checkers tests

checkers: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

tests: $(STAMP) .browser
	$(PYTEST) -m "not slow"

COMMANDS := tests/test_cli.py tests/bandits/test_cli.py tests/dpp/test_rows.py tests/graphs/test_command.py tests/report/test_command.py

test-slow: $(DOCS_STAMP) .browser ## what takes long: statistics, kills, the site and all its examples, commands as new processes, the wheel
	$(PYTEST) -m slow
	SQUEAK_COMMANDS=new $(PYTEST) -m "not slow" $(COMMANDS)
	$(MAKE) dist

test-lowest:        ## the same tests on the oldest versions we promise
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints/lowest.txt
	$(subst $(BIN),.venv-lowest/bin,$(PYTEST)) -m "not slow"

$(VENV)/.bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,demo,river,bench]' -c constraints/newest.txt
	@touch $@

bench: $(VENV)/.bench ## against the peers, which it installs; ratios in one run, tables and pictures; see benchmarks/README.md
	$(BIN)/python -m benchmarks

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]' -c constraints/newest.txt
	@touch $@

docs: $(DOCS_STAMP) ## the site, with every example run and every link checked: docs/_build/html/index.html
	OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build -q -E -W --keep-going -n -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

figures: $(STAMP)   ## draw the pictures of README and docs/ anew
	$(BIN)/python docs/figures/draw.py

dist: $(STAMP)      ## wheel and sdist, each tried in a new environment without a compiler
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	for file in dist/*.whl dist/*.tar.gz; do \
		rm -rf dist/.try && $(PYTHON) -m venv dist/.try \
		&& CC=false CXX=false dist/.try/bin/python -m pip install --quiet --disable-pip-version-check $$file \
		&& dist/.try/bin/squeak --version \
		&& (cd dist && .try/bin/python -c "import numpy as np, squeak; X = np.random.default_rng(0).random((300, 2)); \
		m = squeak.KernelRidge(max_atoms=30, random_state=0).fit(X, X[:, 0]); squeak.report.write(m, 'try.html', X); print(m.score(X, X[:, 0]))") \
		|| exit 1; done; rm -rf dist/.try dist/try.html

reproduce: $(STAMP) ## what the papers report, measured again; see reproduce/README.md
	$(BIN)/python -m reproduce

clean:
	rm -rf $(VENV) .venv-lowest .browser demo build dist docs/_build docs/gallery docs/api/generated
