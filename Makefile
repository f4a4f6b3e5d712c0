# make demo | test | soak | study | bench-gpu | lint | clean. The first target that needs it builds .venv.
# PYTHON=python3.12 picks the interpreter (3.11 or newer); ARGS="--config.steps=3" goes to the program.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
ARGS ?=

.PHONY: demo study test soak bench-gpu lint clean

demo: $(STAMP)
	$(RUN) -m spade_jax.main --config=configs/tiny.py --workdir=runs/tiny $(ARGS)

study: $(STAMP)
	$(RUN) -m spade_jax.study --workdir=runs/study $(ARGS)

test: lint
	$(RUN) -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

soak: $(STAMP)
	$(RUN) -m pytest -q -m soak $(ARGS)

# On a machine with a CUDA GPU, after: .venv/bin/python -m pip install 'jax[cuda12]'
bench-gpu: $(STAMP)
	status=0; for part in sampler_gpu learner_gpu; do \
	  $(RUN) -m benchmarks.$$part $(ARGS) || status=1; done; exit $$status

lint: $(STAMP)
	$(RUN) -m ruff check .

# A changed requirements.txt rebuilds the environment from nothing, so that no old package stays in it.
$(STAMP): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@touch $@

# runs/ holds results and is left alone.
clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
