# Every task of this repository is a target; `make` lists them.
#
# A finished step leaves a stamp under target/stamps and runs again only when its inputs change.

PYTHON ?= python3
CARGO ?= cargo
# The folder of the Python packages; it may be outside the checkout.
VENV ?= .venv

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Cargo fills the cores, and the steps share one venv.
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules

PY := $(VENV)/bin/python
# The venv stores a hash of its requirements, because several checkouts may use it.
REQUIREMENTS := $(wildcard tests/requirements*.txt)
VENV_READY := $(VENV)/.requirements-$(firstword $(shell cat $(REQUIREMENTS) | sha256sum))
STAMPS := target/stamps
FUZZ_SECS ?= 300
TARGET := $(or $(CARGO_TARGET_DIR),target)
# The profile of Cargo.toml with which tests share what a release has compiled.
TESTED := bench
LOCKED := $(if $(wildcard Cargo.lock),--locked)
DEMO := build/demo

# All files below the folders $(1), without the folders themselves: one has the name of a target.
files = $(shell find $(1) -mindepth 1 \( -name __pycache__ -o -name '*.egg-info' \) -prune -o ! -name '*.so' -print)
RUST := $(call files,crates xtask include tests/hostile fuzz/corpus fuzz/fuzz_targets) Cargo.toml $(wildcard Cargo.lock) clippy.toml .cargo/config.toml
PACKAGE := $(call files,python) pyproject.toml setup.py
TESTS := $(call files,tests examples bench .ci) pyproject.toml
PYTHON_CODE := python tests examples bench .ci setup.py

stamp = @mkdir -p $(STAMPS) && touch $@
# Builds the wheel into the folder $(1) with the profile $(2) of Cargo.toml. setuptools keeps removed files in build/.
build-wheel = rm -rf build/lib* build/bdist* $(1); mkdir -p $(STAMPS); \
    SETUPTOOLS_RUST_CARGO_PROFILE=$(2) PYTHONUNBUFFERED=1 \
    $(PY) -m pip wheel --verbose --no-deps $(3) --wheel-dir $(1) . $(progress)
# Compressing a wheel takes longer than compiling a changed crate.
DEMO_WHEEL := build/demo-wheel
LOCAL_WHEEL := build/local-wheel
STORED := --config-settings=--build-option=--compression=stored
install-wheel = $(PY) -m pip install --quiet --force-reinstall --no-deps $(1)/*.whl
# It unpacks in parallel, which takes a minute in place of five. Programs of tests write no bytecode.
uv = $(PY) -m uv pip install --quiet --compile-bytecode --python $(PY)
log = 2>&1 | tee $(STAMPS)/$(1).log
# Prints the thirty longest tests of the log $(1); the sed script $(2) prints `SECONDS s  TEST`.
slowest = echo "$(1):"; if [ -e $(STAMPS)/$(1).log ]; then sed -nE '$(2)' $(STAMPS)/$(1).log | sort -rn | sed -n 1,30p; \
    else echo "  no log: run make test-rust and make test-python first"; fi
# Cargo's selection of the crates of the changed files; other files are of several. Three crates without
# tests depend on all others: with them Cargo compiles each library as for the whole workspace.
changed-crates = $(if $(filter-out crates/%,$?),--workspace,$(addprefix --package=,\
    $(sort $(foreach file,$?,$(word 2,$(subst /, ,$(file))))) marey-engine marey-py marey-capi))
# Shows the lines of Cargo in the output of pip; if pip fails, the whole output.
progress = 2>&1 | tee $(STAMPS)/wheel.log \
    | grep --line-buffered -E '^ *(Updating|Downloading|Downloaded|Compiling|Finished) ' \
    || { cat $(STAMPS)/wheel.log; false; }

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- for users ---------------------------------------------------------------------------------

.PHONY: demo
demo: $(STAMPS)/demo-wheel $(VENV)/.demo ## Train a small GPT under the profiler and show its profile
	$(call install-wheel,$(DEMO_WHEEL))
	rm -rf $(DEMO)
	$(VENV)/bin/marey run -o $(DEMO)/ examples/train_gpt.py
	$(VENV)/bin/marey view $(DEMO)/train_gpt.hatchet
	@echo; echo "The files are here:"; ls -1 $(DEMO)/*
	@echo "The analysis side of this marey is not optimised; make install installs a fast one."

.PHONY: wheel
wheel: $(STAMPS)/wheel ## Build the wheel into dist/

# --- checks ------------------------------------------------------------------------------------

.PHONY: check
check: $(addprefix $(STAMPS)/,fmt clippy deps codegen ruff mypy crates) ## Check a change: lints, types, and the tests of the changed crates

.PHONY: test
test: lint test-rust test-loom test-python test-wheel test-budget ## Run every check and every test

.PHONY: lint
lint: $(addprefix $(STAMPS)/,fmt clippy fuzz deps codegen ruff mypy deny) ## Check format, lints, types, directions and generated files

.PHONY: test-rust
test-rust: $(STAMPS)/cargo-test ## Run the Rust tests

.PHONY: test-loom
test-loom: $(STAMPS)/loom ## Explore the interleavings of the lock-free parts

.PHONY: test-python
test-python: $(STAMPS)/pytest ## Run the Python tests against the installed wheel

.PHONY: test-wheel
test-wheel: $(STAMPS)/every-python ## Test the wheel on every installed CPython from 3.10 to 3.14

.PHONY: test-budget
test-budget: $(STAMPS)/budget ## Count the instructions of the hot paths against their budget

.PHONY: slow
slow: ## List the thirty slowest tests of the last run of each suite
	@$(call slowest,pytest,s/^([0-9.]+)s (call|setup|teardown) +/\1 s  \2 /p)
	@$(call slowest,cargo-test,s/^ +(PASS|FAIL) \[ *([0-9.]+)s\] +(\([ 0-9\/]+\) )?/\2 s  /p)

.PHONY: bench
bench: install ## Measure the peers and marey in turn
	$(PY) bench/run.py
	$(PY) bench/viewer.py
	$(PY) bench/runs.py
	$(PY) bench/formats.py
	$(PY) bench/scale.py
	$(PY) bench/views.py
	$(PY) bench/gpu.py
	$(PY) bench/cpp_scopes.py
	$(PY) bench/operators.py
	$(PY) bench/windows.py
	$(PY) bench/memory.py
	$(PY) bench/time_windows.py
	$(PY) bench/metrics.py
	$(if $(PEERS),$(PY) bench/live.py --peers $(PEERS),@echo "set PEERS to an environment with probing, py-spy and memray for bench/live.py")

.PHONY: layout
layout: ## Compare the tables of CUPTI with NVIDIA's headers of every version (needs a network)
	$(CARGO) xtask layout

.PHONY: torch-versions
torch-versions: $(STAMPS)/wheel ## Test operators in every minor version of PyTorch (needs a network, 6 GB and 3 minutes each)
	PYTHON=$(PYTHON) .ci/torch_versions

# A machine with a GPU may have no Rust; then the marey that is installed for PY is checked.
.PHONY: gpu-check
gpu-check: $(if $(shell command -v $(CARGO)),install) ## Check marey on the GPU of this machine, if there is one; writes docs/gpu
	$(PY) tests/gpu/check.py --output docs/gpu

.PHONY: upstream
upstream: install ## Run Proton's own tests on marey: PROTON_TESTS=triton/third_party/proton/test
	$(PY) tests/recording/upstream_proton.py $(or $(PROTON_TESTS),$(error PROTON_TESTS names no folder))

.PHONY: fuzz
fuzz: ## Feed each reader damaged files for FUZZ_SECS seconds (needs cargo-fuzz)
	for target in $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs))); do \
	    $(CARGO) fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECS); \
	done

# All of it takes a day; MUTANTS selects, for example `MUTANTS='--re model/src/sketch.rs'` or `--shard 0/20`
# (`--file` would add to the files of .cargo/mutants.toml).
.PHONY: mutants
mutants: ## List changes of the code that no Rust test notices (needs cargo-mutants and cargo-nextest)
	CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) mutants $(MUTANTS)

# Too slow for `make test`. CARGO_TARGET_DIR, if any, gets a folder for each build.
.PHONY: sanitize
sanitize: $(VENV_READY) ## Run the recorder's tests under ThreadSanitizer, AddressSanitizer and Valgrind
	PY=$(PY) .ci/sanitize $(SANITIZERS)

.PHONY: sanitize-cpp
sanitize-cpp: install ## Run the C++ tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer
	PY=$(PY) .ci/sanitize headers header_threads

# --- upkeep ------------------------------------------------------------------------------------

.PHONY: install
install: $(VENV_READY) $(STAMPS)/local-wheel ## Build marey and install it into $(VENV) beside its peers
	$(call install-wheel,$(LOCAL_WHEEL))

.PHONY: codegen
codegen: ## Write the generated files
	$(CARGO) xtask codegen

.PHONY: format
format: $(VENV_READY) ## Format all code
	$(CARGO) fmt
	$(PY) -m ruff check --fix-only $(PYTHON_CODE)
	$(PY) -m ruff format $(PYTHON_CODE)

.PHONY: clean
clean: ## Remove all build outputs except $(VENV)
	rm -rf build dist target

# --- steps -------------------------------------------------------------------------------------

$(STAMPS)/fmt: $(RUST) rustfmt.toml
	$(CARGO) fmt --check
	$(stamp)

$(STAMPS)/clippy: $(RUST)
	$(CARGO) clippy --workspace --all-targets $(LOCKED) -- -D warnings
	$(stamp)

# libFuzzer is C++.
$(STAMPS)/fuzz: $(RUST) fuzz/Cargo.toml fuzz/Cargo.lock
	if command -v c++ >/dev/null; then \
	    RUSTFLAGS="--cfg fuzzing" \
	    $(CARGO) check --manifest-path fuzz/Cargo.toml --locked --target-dir $(TARGET)/fuzz; \
	else echo "there is no C++ compiler: the fuzz targets are not checked"; fi
	$(stamp)

$(STAMPS)/deps: $(RUST)
	$(CARGO) xtask deps
	$(stamp)

$(STAMPS)/codegen: $(RUST) $(PACKAGE) $(wildcard docs/reference/*)
	$(CARGO) xtask codegen --check
	$(stamp)

$(STAMPS)/deny: $(wildcard Cargo.lock) deny.toml
	.ci/deny
	$(stamp)

$(STAMPS)/ruff: $(PACKAGE) $(TESTS) | $(VENV_READY)
	$(PY) -m ruff check $(PYTHON_CODE)
	$(PY) -m ruff format --check $(PYTHON_CODE)
	$(stamp)

$(STAMPS)/mypy: $(PACKAGE) $(TESTS) | $(VENV_READY)
	$(PY) -m mypy
	$(stamp)

# cargo-nextest runs no documentation tests.
# The tests search NVIDIA's libraries in the packages of this interpreter.
$(STAMPS)/cargo-test: export MAREY_TEST_PYTHON := $(abspath $(PY))
$(STAMPS)/cargo-test: $(RUST)
	@mkdir -p $(STAMPS)
	if $(CARGO) nextest --version >/dev/null 2>&1; then \
	    $(CARGO) test --workspace --doc --profile $(TESTED) $(LOCKED); \
	    $(CARGO) nextest run --workspace --cargo-profile $(TESTED) --no-fail-fast $(LOCKED) $(call log,cargo-test); \
	else $(CARGO) test --workspace --profile $(TESTED) $(LOCKED) $(call log,cargo-test); fi
	touch $(STAMPS)/crates
	$(stamp)

# `--cfg loom` recompiles everything, so loom has its own target directory.
$(STAMPS)/loom: $(RUST)
	CARGO_TARGET_DIR=$(TARGET)/loom RUSTFLAGS="--cfg loom" \
	    $(CARGO) test --package marey-record --test loom --release $(LOCKED)
	$(stamp)

# A test that hangs fails, with the stacks of its threads; programs that tests wait for fail sooner.
$(STAMPS)/pytest: $(STAMPS)/wheel $(TESTS) | $(VENV_READY)
	$(call install-wheel,dist)
	$(PY) -m pytest --numprocesses=logical --dist=loadfile --timeout=400 --durations=30 --durations-min=0 \
	    $(call log,pytest)
	$(stamp)

$(STAMPS)/every-python: $(STAMPS)/wheel $(TESTS)
	$(PYTHON) .ci/every_python.py dist/*.whl
	$(stamp)

$(STAMPS)/budget: $(STAMPS)/wheel $(RUST) $(TESTS) | $(VENV_READY)
	$(call install-wheel,dist)
	if command -v valgrind >/dev/null; then $(PY) bench/instructions.py --check; \
	else echo "valgrind is not installed: the instruction budgets are not checked"; fi
	$(stamp)

$(STAMPS)/wheel: $(RUST) $(PACKAGE) README.md $(REQUIREMENTS) | $(PY)
	@echo "compiling marey, which takes some 15 minutes on two cores the first time"
	$(call build-wheel,dist,release)
	$(stamp)

$(STAMPS)/local-wheel: $(RUST) $(PACKAGE) README.md $(REQUIREMENTS) | $(PY)
	@echo "compiling marey, which takes some 15 minutes on two cores the first time"
	$(call build-wheel,$(LOCAL_WHEEL),release,$(STORED))
	$(stamp)

$(STAMPS)/demo-wheel: $(RUST) $(PACKAGE) README.md $(REQUIREMENTS) | $(PY)
	@echo "compiling marey, which takes some minutes the first time"
	$(call build-wheel,$(DEMO_WHEEL),demo,$(STORED))
	$(stamp)

$(PY):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "error: marey needs Python 3.10 or later")'
	$(PYTHON) -m venv $(VENV)

$(VENV_READY): | $(PY)
	$(PY) -m pip install --quiet uv
	$(uv) --requirement tests/requirements.txt
	$(uv) --no-deps --requirement tests/requirements-alone.txt
	rm -f $(VENV)/.requirements-*
	touch $@

$(VENV)/.demo: | $(PY)
	$(PY) -m pip install torch numpy
	touch $@

# A change runs the tests of its crate alone: clippy has checked what depends on the crate.
$(STAMPS)/crates: export MAREY_TEST_PYTHON := $(abspath $(PY))
$(STAMPS)/crates: $(RUST)
	if $(CARGO) nextest --version >/dev/null 2>&1; then \
	    $(CARGO) nextest run $(changed-crates) --cargo-profile $(TESTED) --no-fail-fast --no-tests pass $(LOCKED); \
	else $(CARGO) test --workspace --profile $(TESTED) $(LOCKED); fi
	$(stamp)
