# Every target prepares what it needs: `make test` and `make book` work on a fresh
# clone with nothing but Python 3.11 or newer.
#
#   make test         run the tests and compare every notebook with its stored outputs
#   make lint         check the style, the order of imports, links, names and chapters
#   make mutations    put known faults into the package; the tests must notice each
#   make book         build the book; any warning is an error, and so is a page that
#                     loads anything from another server
#                     (make book LANGUAGE=ko, LANGUAGE=zh: in another language)
#   make notebooks    run the notebooks again and store their outputs
#                     (make notebooks ONLY="03_2_1_scaled_dot_product_attention")
#   make processors   make test on other processors' ways through the same arithmetic
#   make colab        run the notebooks as in Colab: old IPython, no package, empty folder
#                     (the package of the last commit; make colab ONLY=02_background)
#   make results      make the results that are missing, several hours; it can be stopped
#                     and started again (make results ONLY='table_3/*' JOBS=2)
#   make bench        time training and translating in turn with the peers
#   make gpu          test and time everything on a GPU, in nine minutes; it installs
#                     nothing where PYTHON has what it needs
#   make clean        remove the environment and everything that was built
#
# PYTHON=/path/to/python chooses the interpreter, TESTS=tests/package/test_masks.py a
# part of the tests.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    >/dev/null 2>&1 && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
VENV_BENCH := .venv-bench
VENV_COLAB := .venv-colab

# Of the command line only: a desktop may set a variable of this name for its messages.
EDITION := $(if $(filter command,$(origin LANGUAGE)),$(filter-out en,$(LANGUAGE)))
unexport LANGUAGE
BOOK := _build/html$(if $(EDITION),/$(EDITION))

# PyPI's torch for Linux brings gigabytes of CUDA libraries. Where no GPU is found, pip
# also looks where PyTorch offers builds without them, if that index can be reached.
CPU_INDEX := https://download.pytorch.org/whl/cpu

# As many workers as cores share the tests, so each computes with one thread. One thread
# also keeps the last digits of sums, and with them the stored outputs, the same on every
# machine.
export OMP_NUM_THREADS := 1
WORKERS := -n logical --maxprocesses 8 --dist loadfile

# The tests start a hundred Pythons, which need not compile the package again each time.
unexport PYTHONDONTWRITEBYTECODE

# What Colab brings and the package needs; torch is the book's.
COLAB := ipython==7.34.0 ipykernel==6.17.1 numpy==2.1.3 matplotlib==3.10.0 nbconvert

.PHONY: test lint mutations book notebooks processors plain avx2 colab results bench gpu clean

test: $(READY)
	$(BIN)/python -m pytest --nbval --nbval-current-env --nbval-cell-timeout 300 $(WORKERS) --durations=20 $(TESTS)

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python tests/lint.py

mutations: $(READY)
	$(BIN)/python tests/mutations.py $(ONLY)

book: $(READY)
	$(if $(EDITION),$(BIN)/python book/tools/translations.py build $(EDITION),$(BIN)/jupyter-book build . --toc book/_toc.yml -W --keep-going -n)
	$(BIN)/python book/tools/check_pages.py $(BOOK)
	@echo "The book: $(BOOK)/index.html"

notebooks: $(READY)
	$(BIN)/python book/tools/make_results.py
	$(BIN)/python book/tools/notebooks.py $(ONLY)
	$(BIN)/python book/tools/make_map.py
	$(BIN)/python book/tools/link_glossary.py
	$(BIN)/python book/tools/make_course.py
	$(BIN)/python book/tools/draw_trials.py
	$(BIN)/python book/tools/translations.py update

# PyTorch, oneDNN and MKL choose their loops by the processor. These variables have them
# choose as on one without wide vectors, and as on one with AVX2, there with two threads.
processors: plain avx2 test

plain: export ATEN_CPU_CAPABILITY := default
plain: export ONEDNN_MAX_CPU_ISA := SSE41
plain: export MKL_CBWR := COMPATIBLE

avx2: export ATEN_CPU_CAPABILITY := avx2
avx2: export ONEDNN_MAX_CPU_ISA := AVX2
avx2: export MKL_CBWR := AVX2
avx2: export OMP_NUM_THREADS := 2

plain avx2:
	$(MAKE) test OMP_NUM_THREADS=$(OMP_NUM_THREADS)

colab:
	rm -rf $(VENV_COLAB)
	$(PYTHON) -m venv $(VENV_COLAB)
	$(VENV_COLAB)/bin/python -m pip install --quiet $(COLAB) $$(grep ^torch== requirements.txt)
	env -u PYTHONPATH TRANSFORMER_LITE_GIT=file://$(CURDIR) \
	  $(VENV_COLAB)/bin/python book/tools/colab.py notebooks/$(or $(ONLY),*).ipynb

results: $(READY)
	$(BIN)/python -m results.make --jobs $(or $(JOBS),1) $(if $(ONLY),--only '$(ONLY)'); \
	  status=$$?; $(BIN)/python book/tools/make_results.py && exit $$status

bench: $(VENV_BENCH)/.installed
	$(VENV_BENCH)/bin/python benchmarks/run.py $(ONLY)

# Machines with a GPU come with a torch made for it, and often without a network.
FOR_GPU := torch, sentencepiece, safetensors, sacrebleu, jaxtyping, tqdm, filelock
gpu:
	$(PYTHON) -c 'import $(FOR_GPU)' 2>/dev/null || $(MAKE) $(READY)
	if $(PYTHON) -c 'import $(FOR_GPU)' 2>/dev/null; then $(PYTHON) benchmarks/gpu.py; \
	  else $(BIN)/python benchmarks/gpu.py; fi

$(VENV_BENCH)/.installed: benchmarks/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV_BENCH)
	$(VENV_BENCH)/bin/python -m pip install --quiet --requirement benchmarks/requirements.txt
	$(VENV_BENCH)/bin/python -m pip install --quiet --no-deps --editable .
	@touch $@

$(READY): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "This needs Python 3.11 or newer, and none was found. Install one, or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than Python 3.11. Name a newer one: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "$(PYTHON) cannot make environments. Install its venv module (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@size="on Linux more than 6 GB with CUDA, several minutes"; \
	  if [ "$$(uname)" = Linux ] && ! nvidia-smi >/dev/null 2>&1; then \
	    if $(PYTHON) -c 'from urllib.request import urlopen; urlopen("$(CPU_INDEX)/torch/", timeout=5)' 2>/dev/null; \
	    then export PIP_EXTRA_INDEX_URL="$(CPU_INDEX) $$PIP_EXTRA_INDEX_URL"; \
	      size="without CUDA, since no GPU was found: 1.7 GB, a minute or more"; \
	    else size="more than 6 GB with CUDA, several minutes: $(CPU_INDEX) cannot be reached"; fi; fi; \
	  echo "Installing what requirements.txt names into $(VENV), $$size. pip says nothing meanwhile."; \
	  $(BIN)/python -m pip install --quiet --requirement requirements.txt
	@touch $@

clean:
	rm -rf $(VENV) $(VENV_BENCH) $(VENV_COLAB) _build build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find book notebooks tests transformer_lite* -name __pycache__ -prune -exec rm -rf {} +
