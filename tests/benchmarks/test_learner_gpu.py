"""`benchmarks.learner_gpu` on CPU: every case runs, its programs lower for CUDA, limits by hand."""

import json

import jax
import jax.numpy as jnp
import pytest

from benchmarks import learner_gpu
from benchmarks.learner_gpu import Case
from benchmarks.learner_workload import useful_flops
from benchmarks.sampler_roofline import Peaks
from spade_jax import models


@pytest.mark.usefixtures("quick_to_compile")
def test_every_case_of_the_tiny_run_prints_positive_numbers(capsys, tmp_path):
    file = tmp_path / "all.json"
    file.write_text('{"sampler": 1}')
    assert learner_gpu.main(["--tiny", f"--json={file}"]) == 0
    result, printed = json.loads(file.read_text()), capsys.readouterr().out
    assert result["sampler"] == 1
    sizes = learner_gpu.tiny_sizes()
    assert list(result["learner"]["cases"]) == [case.name for case in sizes.cases]
    for case in sizes.cases:
        row = result["learner"]["cases"][case.name]
        assert f"| {case.name} | " in printed
        assert all(value > 0 for key, value in row.items() if key != "peak_gb"), row
        assert row["tok_s"] * row["ms"] == pytest.approx(1e3 * case.rows * case.length)
        assert row["of_peak"] < row["computed_of_peak"]


def test_the_programs_lower_for_cuda():
    sizes = learner_gpu.full_sizes(140e9)
    learner = learner_gpu.Bench(sizes, Peaks(1.0, 1.0, {})).learner
    state = learner.abstract()
    batch = learner_gpu.full_batch(Case(1, 2048, 1), sizes.config.vocab_size)
    for program, arguments in (
        (learner._gradients, (state.params, batch, 1.0, None)),
        (learner._add, (state.params, state.params)),
        (learner._apply, (state, state.params)),
    ):
        text = program.trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
        assert "bf16" in text or program is not learner._gradients


@pytest.mark.parametrize(("memory", "layers"), [(140e9, 36), (59e9, 18), (0, 1)])
def test_the_model_has_the_layers_that_fit(memory, layers):
    config = learner_gpu.full_sizes(memory).config
    assert config.num_layers == layers
    used = learner_gpu.STATE_BYTES * learner_gpu.num_params(config) + learner_gpu.RESERVE
    assert layers == 1 or used <= memory


def test_full_rows_are_trained_on_every_token():
    batch = learner_gpu.full_batch(Case(3, 8, 1), 50)
    assert (batch.tokens[:, 1:] == batch.targets[:, :-1]).all()
    assert float(jnp.sum(batch.weights)) == pytest.approx(1.0) and (batch.weights > 0).all()
    useful, computed = learner_gpu.operations(learner_gpu.tiny_sizes(), Case(3, 8, 1))
    assert useful == useful_flops(learner_gpu.tiny_sizes().shape, [9, 9, 9]) < computed
    assert batch.tokens.size == 24 == 3 * (9 - 1)


def test_a_case_that_fails_says_why_and_the_others_go_on(capsys, monkeypatch):
    def failing(bench, case):
        if case.rows == 2:
            raise RuntimeError("RESOURCE_EXHAUSTED: out of memory\nand much more")
        return {"ms": 123.0}

    monkeypatch.setattr(learner_gpu.Bench, "measure", failing)
    assert learner_gpu.main(["--tiny"]) == 1
    lines = capsys.readouterr().out.splitlines()
    first, second = [line for line in lines if line.startswith("| update ")]
    assert first.endswith("| RuntimeError: RESOURCE_EXHAUSTED: out of memory |")
    assert "| 123 |" in second


def test_the_largest_model_is_that_of_the_preset():
    assert learner_gpu.num_params(models.preset("qwen3_4b")) == pytest.approx(4.02e9, rel=1e-2)


@pytest.mark.skipif(jax.default_backend() == "gpu", reason="there is a GPU")
def test_without_a_gpu_it_says_so_in_one_line(capsys):
    assert learner_gpu.main([]) == 2
    assert capsys.readouterr().out.count("\n") == 1
