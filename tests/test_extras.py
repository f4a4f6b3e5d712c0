"""What runs without the packages of an extra, and what is said where they are needed."""

import subprocess
import sys
from pathlib import Path

import pytest

from spade_jax import extras
from spade_jax.models import convert
from tests.models import golden

ROOT = Path(__file__).resolve().parent.parent
HF = ("gguf", "safetensors", "tokenizers")
WITHOUT_HF = f"import sys\nsys.modules.update(dict.fromkeys({HF}))\n"
INSTALL = "pip install 'spade_jax[hf]'"


def run_without_hf(code: str, *arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", WITHOUT_HF + code, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_every_module_imports_without_the_packages_of_hf():
    code = (
        "import importlib, pkgutil, spade_jax\n"
        "names = [m.name for m in pkgutil.walk_packages(spade_jax.__path__, 'spade_jax.')]\n"
        "for name in names:\n"
        "    if not name.endswith(('__main__', *sys.argv[1:])):\n"
        "        importlib.import_module(name)\n"
        "assert {'spade_jax.main', 'spade_jax.rooms', 'spade_jax.pretrained'} <= {*names}\n"
    )
    done = run_without_hf(code, "spade_jax.study")  # a second program with flags of its own
    assert done.returncode == 0, done.stderr


def test_the_tokenizers_of_public_models_say_what_to_install(tmp_path):
    code = (
        "from spade_jax.text import HFTokenizer, TextError\n"
        "from spade_jax.text.gguf_tokenizer import tokenizer_json\n"
        "for make in (HFTokenizer, tokenizer_json):\n"
        "    try:\n"
        "        make(sys.argv[1])\n"
        "    except TextError as error:\n"
        "        print(error)\n"
    )
    (tmp_path / "tokenizer").write_text("{}")
    done = run_without_hf(code, tmp_path / "tokenizer")
    assert (done.stdout.count("tokenizers is not"), done.stdout.count("gguf is not")) == (1, 1)
    assert done.stdout.count(INSTALL) == 2, done.stderr


@pytest.mark.parametrize("kind", ["safetensors", "gguf", "export"])
def test_convert_says_what_to_install(kind, tmp_path):
    config, params, _ = golden.load("llama_tied")
    convert.save_checkpoint(config, params, tmp_path / "ours")
    path, target = {
        "safetensors": (golden.FOLDER / "llama_tied", "--to"),
        "gguf": (tmp_path / "model.gguf", "--to"),
        "export": (tmp_path / "ours", "--to-hf"),
    }[kind]
    code = "from spade_jax.models import convert\nsys.exit(convert.main(sys.argv[1:]))"
    done = run_without_hf(code, "--from", path, target, tmp_path / "out")
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    assert done.stderr.startswith("ModelError") and INSTALL in done.stderr


def test_a_package_that_is_there_but_broken_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import a_module_that_nobody_has")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_module_that_nobody_has"):
        extras.require("broken_package", "hf", ValueError)
    with pytest.raises(ValueError, match="nobody_has_this is not installed"):
        extras.require("nobody_has_this.part", "hf", ValueError)
