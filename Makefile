# Every target prepares what it needs: `make test` and `make book` work on a fresh
# clone with nothing but Python 3.11, 3.12 or 3.13.
#
#   make test         run the tests and compare every notebook with its stored outputs
#   make book         build the book; any warning is an error, and so is a page that
#                     loads anything from another server
#   make notebooks    run the notebooks again and store their outputs
#                     (make notebooks ONLY="03_2_1_scaled_dot_product_attention")
#   make bench        time training and translating side by side with the peers
#   make clean        remove the environment and everything that was built
#
# PYTHON=/path/to/python chooses the interpreter, TESTS=tests/test_masks.py a part of
# the tests.

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
  $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
    >/dev/null 2>&1 && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
VENV_BENCH := .venv-bench

# Two workers share the tests, so each computes with one thread. One thread also keeps
# the last digits of sums, and with them the stored outputs, the same on every machine.
export OMP_NUM_THREADS := 1

.PHONY: test book notebooks bench clean

test: $(READY)
	$(BIN)/python -m pytest --nbval --nbval-current-env -n 2 --dist loadfile $(TESTS)

book: $(READY)
	$(BIN)/jupyter-book build . --toc book/_toc.yml -W --keep-going -n
	$(BIN)/python book/tools/check_pages.py
	@echo "The book: _build/html/index.html"

notebooks: $(READY)
	$(BIN)/python book/tools/notebooks.py $(ONLY)
	$(BIN)/python book/tools/make_map.py
	$(BIN)/python book/tools/link_glossary.py

bench: $(VENV_BENCH)/.installed
	$(VENV_BENCH)/bin/python benchmarks/run.py $(ONLY)

$(VENV_BENCH)/.installed: benchmarks/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV_BENCH)
	$(VENV_BENCH)/bin/python -m pip install --quiet --requirement benchmarks/requirements.txt
	$(VENV_BENCH)/bin/python -m pip install --quiet --no-deps --editable .
	@touch $@

$(READY): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "This needs Python 3.11, 3.12 or 3.13, and none was found. Install one, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || { echo "$(PYTHON) is not Python 3.11, 3.12 or 3.13. Name one that is: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "$(PYTHON) cannot make environments. Install its venv module (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

clean:
	rm -rf $(VENV) $(VENV_BENCH) _build build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find book notebooks tests transformer_lite -name __pycache__ -prune -exec rm -rf {} +
