# `make demo` and `make test` do all the set-up: each creates .venv and installs what it needs the first time.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
INSTALLED := .venv/.installed
export HF_HUB_OFFLINE := 1
export HF_HUB_DISABLE_TELEMETRY := 1

.PHONY: demo docs test test-all lint benchmarks benchmarks-gpu sample clean

demo: $(INSTALLED)
	$(BIN)/medvqa-hub demo

# The fast tests prove every behaviour in a few minutes. The slow ones add kills, several processes and Monte Carlo.
test: $(INSTALLED)
	$(BIN)/pytest -n auto --dist worksteal -m "not slow"

test-all: $(INSTALLED)
	$(BIN)/pytest -n auto --dist worksteal

# The documentation site, in out/site. Links, anchors and references that lead nowhere are errors.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

benchmarks: $(INSTALLED)
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/images.py
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/reward.py
	$(BIN)/python benchmarks/training_input.py
	$(BIN)/python benchmarks/scst.py
	$(BIN)/python benchmarks/parity.py
	$(BIN)/python benchmarks/esra.py
	$(BIN)/python benchmarks/meddqa.py
	$(BIN)/python benchmarks/meddqa_varied.py 270
	$(BIN)/python benchmarks/table_guard.py
	$(BIN)/python benchmarks/annotation_effort.py
	$(BIN)/python benchmarks/explore.py
	$(BIN)/python benchmarks/learning.py
	$(BIN)/python benchmarks/readme.py

# Each needs a CUDA device and writes its own result file.
benchmarks-gpu: $(INSTALLED)
	$(BIN)/python benchmarks/scst_gpu.py
	$(BIN)/python benchmarks/generation.py
	$(BIN)/python benchmarks/llm_gpu.py
	$(BIN)/python benchmarks/train_vlm_gpu.py

sample: $(INSTALLED)
	$(BIN)/python -m mimic_cxr_vqa.sample_writer mimic_cxr_vqa/sample
	$(BIN)/python -m rjua_meddqa.sample_writer rjua_meddqa/sample

clean:
	rm -rf .venv build dist *.egg-info out/demo

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.version_info >= (3, 11) or sys.exit('Python 3.11 or newer is required. Choose one with: make PYTHON=python3.12')"
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt -e ".[test]"
	touch $@
