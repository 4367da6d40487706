# llamapy. `make demo` and `make test` need Python 3.11+, gcc, make and a package index, no more:
# each sets up what it lacks and is quick the second time.

VENV ?= .venv
PY := $(VENV)/bin/python
LLAMAPY := $(PY) -m llamapy
# The first Python on the path that is new enough.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
MODELS ?= demo
PYTEST_ARGS ?= -n 2
CROSS_CC ?= aarch64-linux-gnu-gcc

.PHONY: help demo test test-native test-python native models lint fmt bench asan tsan arm size docs \
	clean distclean
.DEFAULT_GOAL := help
.NOTPARALLEL:

help:
	@echo "make demo     set up, fetch a small model (98 MB), continue a sentence with it"
	@echo "make test     set up, then the C tests and the Python tests"
	@echo "make native   build the C library"
	@echo "make lint     ruff, ruff format, mypy --strict, clang-format: check"
	@echo "make fmt      ruff and clang-format: rewrite"
	@echo "make bench    kernel and end-to-end benchmarks"
	@echo "make asan     C tests under AddressSanitizer and UBSan;  make tsan: under ThreadSanitizer"
	@echo "make arm      cross-build for aarch64 (needs $(CROSS_CC))"
	@echo "make docs     the generated pages of docs/, anew (a test compares them)"
	@echo "make size     lines of code per folder against the budgets in pyproject.toml"
	@echo "make clean    remove what was built;  make distclean: the virtual environment too"

demo: $(VENV)/.run native
	@echo "== model: $$($(LLAMAPY) pull demo)"
	@echo "== llamapy run -n 48 --temp 0 -p 'The three most important things in life are'"
	@$(LLAMAPY) run -n 48 --temp 0 --display-prompt -p 'The three most important things in life are'
	@echo

test: test-native test-python

test-native: native
	@echo "== C tests"
	@$(MAKE) --no-print-directory -C native test

test-python: $(VENV)/.dev native models
	@echo "== Python tests"
	@$(PY) -m pytest $(PYTEST_ARGS) tests

models: $(VENV)/.run native
	@for m in $(MODELS); do echo "== model: $$($(LLAMAPY) pull $$m)" || exit 1; done

native:
	@echo "== native library"
	@$(MAKE) --no-print-directory -s -j2 -C native

$(PY):
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and was not found" >&2; exit 1; }
	@echo "== virtual environment in $(VENV) ($(PYTHON))"
	@$(PYTHON) -m venv $(VENV) || { \
		echo "no venv: on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 1; }

# Two stamps: what running needs, and what developing needs on top of it.
$(VENV)/.run: pyproject.toml hatch_build.py | $(PY)
	@echo "== packages to run llamapy"
	@$(PY) -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: pyproject.toml hatch_build.py | $(PY)
	@echo "== packages to develop llamapy"
	@$(PY) -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.run

lint: $(VENV)/.dev
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(MAKE) --no-print-directory -s -C native lint CLANG_FORMAT=$(abspath $(VENV))/bin/clang-format

fmt: $(VENV)/.dev
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .
	@$(MAKE) --no-print-directory -s -C native fmt CLANG_FORMAT=$(abspath $(VENV))/bin/clang-format

bench: $(VENV)/.run native models
	@for b in bench/*.py; do echo "== $$b"; PYTHONPATH=. $(PY) $$b || exit 1; done

asan tsan:
	@$(MAKE) --no-print-directory -C native $@

arm:
	@command -v $(CROSS_CC) >/dev/null || { \
		echo "$(CROSS_CC) not found: apt-get install gcc-aarch64-linux-gnu" >&2; exit 1; }
	@$(MAKE) --no-print-directory -C native arm CROSS_CC=$(CROSS_CC)

size: | $(PY)
	@$(PY) .ci/size.py

docs: $(VENV)/.dev native
	@for d in docs/write_*.py; do PYTHONPATH=. $(PY) $$d || exit 1; done

clean:
	@$(MAKE) --no-print-directory -s -C native clean
	@rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
	@find llamapy tests bench -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	@rm -rf $(VENV)
