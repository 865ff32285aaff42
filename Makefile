# Everything from a bare clone: an interpreter >= 3.12, a virtual environment, the job.

VENV := .venv
BIN := $(VENV)/bin
# Where to look for an interpreter: the PATH, then the versions that pyenv keeps.
CANDIDATES := python3 python3.14 python3.13 python3.12 \
	$(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/*/bin/python3)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 12))

# Oldest versions of the dependencies that pyproject.toml allows.
OLDEST := .venv-oldest
LOWER_BOUNDS := import re, tomllib; \
	project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	[print(re.sub(r"\[.*\]", "", each).replace(">=", "==")) \
	for each in project["dependencies"] if ">=" in each]

# What users of PyMC-Marketing have: it and pymc-extras ask for PyMC < 6.4.
MARKETING := .venv-marketing

# Another processor: without the instructions that this one may have, everything compiled has other
# bits. Tests of choices come first to rest on them; TESTS=tests runs all.
ELSEWHERE := .elsewhere
TESTS := tests/paths/test_paths.py

# What a user has: the wheel and the sdist, each installed alone.
BARE := .venv-bare

.PHONY: demo test test-room test-elsewhere test-oldest test-marketing test-slow wheel-test upstream lint docs pages clean

demo: $(VENV)/installed
	$(BIN)/python examples/eight_schools.py

test: lint # two workers on two cores leave none for threads of BLAS
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile --no-loadscope-reorder

test-room: $(VENV)/installed # make test-room ROOM=estimators
	$(BIN)/python -m pytest -m "not slow" $(or $(wildcard tests/$(ROOM) pymc_bdmc/$(ROOM)), \
		$(error ROOM=$(ROOM): no such folder in tests or pymc_bdmc))

test-elsewhere: $(VENV)/installed
	NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= OPENBLAS_CORETYPE=Haswell \
	NUMBA_CACHE_DIR=$(CURDIR)/$(ELSEWHERE)/numba \
	PYTENSOR_FLAGS=base_compiledir=$(CURDIR)/$(ELSEWHERE)/pytensor \
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile --no-loadscope-reorder $(TESTS)

test-oldest: $(OLDEST)/installed
	PYTENSOR_FLAGS=base_compiledir=$(OLDEST)/pytensor \
	$(OLDEST)/bin/python -m pytest -m "not slow" -n 2 --dist loadfile --no-loadscope-reorder

test-marketing: $(MARKETING)/installed # old names in PyMC 6.3 for parts of a newer PyTensor
	$(MARKETING)/bin/python -m pytest -W ignore::DeprecationWarning \
		-W ignore::FutureWarning -n 2 --dist loadfile \
		tests/base/test_corrected.py tests/density/test_approximation.py tests/density/test_families.py

test-slow: test-elsewhere
	$(BIN)/python -m pytest -m slow

wheel-test: $(VENV)/installed
	rm -rf dist
	$(BIN)/python -m pip install --quiet build twine
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	for archive in dist/*; do \
		$(BIN)/python -m venv --clear $(BARE) && \
		$(BARE)/bin/python -m pip install --quiet "$$archive" && \
		$(BARE)/bin/python -m pip check && \
		$(BARE)/bin/python -I .ci/installed.py || exit 1; \
	done

upstream: $(VENV)/installed
	for script in docs/upstream/*.py; do $(BIN)/python -W ignore "$$script" || exit 1; done

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	$(BIN)/python -m sphinx -W docs docs/_build

pages: $(VENV)/installed # what the code on these pages prints
	$(BIN)/python docs/outputs.py $(addprefix docs/,index.md howto.md first_evidence.md trust.md hierarchical.md design.md)

$(VENV)/installed: pyproject.toml
	@for python in $(CANDIDATES); do \
		if "$$python" -c '$(NEW_ENOUGH)' 2>/dev/null; then found="$$python"; break; fi; \
	done; \
	if [ -n "$$found" ]; then \
		echo "Using $$("$$found" --version) at $$(command -v "$$found")"; \
		"$$found" -m venv $(VENV); \
	else \
		echo "No Python 3.12 or newer found; uv fetches one"; \
		command -v uv >/dev/null || python3 -m pip install --quiet --user uv || { \
			echo "Install Python >= 3.12 or uv (https://docs.astral.sh/uv), then try again" >&2; \
			exit 1; }; \
		PATH="$$HOME/.local/bin:$$PATH" uv venv --clear --seed --python 3.13 $(VENV); \
	fi
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	@touch $@

$(OLDEST)/installed: $(VENV)/installed
	$(BIN)/python -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(BIN)/python -c '$(LOWER_BOUNDS)' > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt \
		--editable ".[test]"
	@touch $@

$(MARKETING)/installed: $(VENV)/installed
	$(BIN)/python -m venv --clear $(MARKETING)
	$(MARKETING)/bin/python -m pip install --quiet --upgrade pip
	$(MARKETING)/bin/python -m pip install --quiet --editable ".[test]" \
		"pymc==6.3.*" pymc-extras pymc-marketing polyagamma
	@touch $@

clean:
	rm -rf $(VENV) $(OLDEST) $(MARKETING) $(BARE) $(ELSEWHERE) dist output docs/_build
	find . -name __pycache__ -prune -exec rm -rf {} +
