# Everything a fresh machine needs is Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-slow test-lowest bench docs dist reproduce clean

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("squeak needs Python 3.11 or newer; set PYTHON=") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,demo]' -c constraints/newest.txt
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

bench: $(STAMP)     ## ratios in one run; see benchmarks/README.md
	$(BIN)/python -m benchmarks

docs: $(STAMP)      ## draw the figures of docs/ anew
	$(BIN)/python examples/plot_dictionary.py
	$(BIN)/python examples/plot_accuracy.py
	$(BIN)/python examples/plot_samplers.py
	$(BIN)/python examples/plot_learners.py
	$(BIN)/python examples/plot_pca.py
	$(BIN)/python examples/plot_random_features.py
	$(BIN)/python examples/plot_dpp.py
	$(BIN)/python examples/plot_online.py
	$(BIN)/python examples/plot_bandits.py
	$(BIN)/python examples/plot_graphs.py

reproduce: $(STAMP) ## what the papers report, measured again; see reproduce/README.md
	$(BIN)/python -m reproduce

clean:
	rm -rf $(VENV) .venv-lowest demo build dist
