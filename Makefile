# Two commands do everything: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml $(wildcard CMakeLists.txt) $(shell find native -type f 2>/dev/null)

# Bytecode is kept in .venv, also where the environment wants none beside the sources: compiling the
# package and its tests takes several seconds for every process that starts.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/$(VENV)/bytecode

# As many tests run at once as there are cores: libraries that start threads of their own only wait.
# Tests of a file run in one process, which makes what they share once.
unit frameworks sanitize: export OMP_NUM_THREADS := 1
unit frameworks sanitize: export OPENBLAS_NUM_THREADS := 1

.PHONY: demo test frameworks sanitize lint types lit unit docs setup clean

demo: setup
	$(BIN)/python examples/demo.py

test: lint types lit unit

# Tests with live PyTorch and JAX, which `make test` does without: it reads models they saved.
frameworks: setup
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0 jax==0.10.2 flax==0.12.8 \
	  transformers==5.22.2 onnxruntime==1.31.1
	$(BIN)/pytest -n 2 --dist loadfile tests/frontend/test_torch.py tests/frontend/test_torch_device.py tests/frontend/test_torch_plain.py \
	  tests/frontend/test_jax.py tests/frontend/test_same_models.py \
	  tests/frontend/test_aten_calls.py tests/frontend/test_first_ten_minutes.py \
	  tests/frontend/test_random_models.py \
	  tests/targets/coral/test_coral_jax.py tests/targets/coral/test_coral_torch.py \
	  tests/targets/xdna/test_xdna_frameworks.py \
	  tests/frontend/test_decoders.py tests/test_entry_points_frameworks.py \
	  tests/frontend/test_onnx_recurrent.py tests/test_compiling.py tests/test_zoo.py \
	  tests/frontend/test_attention_forms.py tests/frontend/test_aten_complex.py

# The native code once more, under address and undefined-behaviour sanitizers.
sanitize: setup
	$(BIN)/python benchmarks/sanitized.py -m pytest -q -n 0 -p no:cacheprovider \
	  tests/targets/atlas/test_conformance.py tests/targets/atlas/test_native.py \
	  tests/targets/coral/test_machine.py tests/targets/coral/test_oracle.py \
	  tests/planning/test_planners.py -k "not thousands"
	$(BIN)/python benchmarks/sanitized.py benchmarks/differential.py --count 60
	$(BIN)/python benchmarks/sanitized.py benchmarks/fuzz.py --count 400 --workers 2 $(if $(CI),--seed 1)

setup: $(VENV)/ready

$(VENV)/ready: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(wildcard native/*/*.cpp native/*/*.hpp native/*/*.h)

types: setup
	$(BIN)/pyright --pythonpath $(BIN)/python

lit: setup
	$(BIN)/lit -v tests/filecheck

unit: setup
	$(BIN)/pytest -n 2 --dist loadfile

# Pages generated from the code; `make test` checks that they are current.
docs: setup
	$(BIN)/tilewright isa --write-docs docs/isa
	$(BIN)/python -m tilewright.cli.documentation > docs/dialects.md
	$(BIN)/tilewright kernels options > docs/kernel-options.md

clean:
	rm -rf $(VENV) build out
