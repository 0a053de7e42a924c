# make install    .venv with everything that the commands need
# make dev        the same, and what tests and lint need, Triton too
# make demo       install, then optimize one example
# make test       install, then every test (TESTS="tests/store -k url" for some)
# make lint       ruff and mypy
# make bench-cpu  judge all examples and write docs/results/cpu.{json,md}
# make clean      remove .venv and build folders
#
# PYTHON=python3.12     another interpreter than the first one on PATH that is new enough
# TORCH_INDEX=URL       where torch's wheels come from besides the default index; empty: the default index alone

.DEFAULT_GOAL := install
.PHONY: install dev demo test lint bench-cpu clean

VENV := .venv
BIN := $(VENV)/bin
TESTS ?= tests

# The default index has CUDA builds of torch (gigabytes); without an NVIDIA GPU the CPU build is enough.
TORCH_INDEX ?= $(shell nvidia-smi -L >/dev/null 2>&1 || echo https://download.pytorch.org/whl/cpu)

define FIND_PYTHON
for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.14 python); do \
  if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
done; \
if [ -z "$$found" ]; then \
  echo "No Python 3.11 or newer with venv is on PATH: install one (Debian, Ubuntu: apt install python3 python3-venv)," \
       "or name it: make PYTHON=/path/to/python3" >&2; exit 1; \
fi
endef

# Adds the index only where it answers, so that a mirror, a folder of wheels or no network at all work as well.
define PIP_INSTALL
index="$(TORCH_INDEX)"; \
if [ -n "$$index" ] && ! $(BIN)/python -c "import urllib.request as u; u.urlopen('$$index/torch/', timeout=10)" 2>/dev/null; \
then echo "$$index does not answer: torch comes from pip's own indexes"; index=; fi; \
$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt $${index:+--extra-index-url "$$index"} -e
endef

install: $(VENV)/.installed
dev: $(VENV)/.installed-dev

$(BIN)/python:
	@$(FIND_PYTHON); echo "making $(VENV) with $$found"; $$found -m venv --clear $(VENV)

# A virtual environment whose Python has gone (an upgraded system) is made anew.
ifneq ($(wildcard $(VENV)),)
ifneq ($(shell $(BIN)/python -c 'print(1)' 2>/dev/null),1)
.PHONY: $(BIN)/python
endif
endif

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP_INSTALL) .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP_INSTALL) '.[dev,postgres,triton]'
	@touch $(VENV)/.installed $@

demo: install
	$(BIN)/cuda-agent optimize examples/rmsnorm_gelu.py

test: dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not timing" $(TESTS) || [ $$? = 5 ]
	$(BIN)/python -m pytest -m timing $(TESTS) || [ $$? = 5 ]  # 5: none of the tests that were asked for is one

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench-cpu: install
	$(BIN)/python benchmarks/cpu.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info
