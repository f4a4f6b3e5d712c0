import subprocess
import sys
import textwrap

import pytest

from spade_jax.grounding import CorpusError, machine, open_corpus
from spade_jax.grounding.machine import MIN_WORDS, MachineCorpus, module_text

LONG = "word " * MIN_WORDS


@pytest.fixture(scope="module")
def corpus():
    return open_corpus("machine")


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A standard library of our own, without packages and topics."""
    monkeypatch.setattr(machine, "PACKAGES", ())
    monkeypatch.setattr(machine, "_topics", list)
    monkeypatch.setattr(machine.sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    return tmp_path


def names(corpus):
    return [corpus[i].id for i in range(len(corpus))]


def test_it_holds_topics_and_modules_in_a_fixed_order(corpus):
    again = MachineCorpus()
    assert len(corpus) == len(again) > 150
    places = [0, 1, *range(50, len(corpus), 150)]
    ids = [corpus[i].id for i in places]
    assert ids == [again[i].id for i in places]
    assert ids[0].startswith("topic:")
    assert ids[-1].startswith("module:")


def test_a_sample_of_documents_has_text_of_sensible_length(corpus):
    lengths = [len(corpus[i].text.split()) for i in range(0, len(corpus), 60)]
    assert min(lengths) >= 20
    assert sum(length >= MIN_WORDS for length in lengths) >= 0.95 * len(lengths)
    assert max(lengths) < 15_000




def test_a_document_is_the_docstrings_under_their_signatures(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(textwrap.dedent('''
        """About m."""
        X = """no docstring"""
        class Lift(Base):
            """A lift."""
            def go(self, floor: int = 3, *, slow=False):
                """Goes."""
                def inner(): "Inside."
            def silent(self): pass
        async def wait(): "Waits."
    '''))
    assert module_text("pkg.m", path).split("\n\n") == [
        "Module pkg.m", "About m.", "class Lift\nA lift.",
        "Lift.go(self, floor: int=3, *, slow=False)\nGoes.", "Lift.inner()\nInside.",
        "wait()\nWaits.",
    ]


def test_a_module_for_another_python_still_yields_its_docstrings(tmp_path):
    path = tmp_path / "m.py"
    path.write_text('"""About m."""\ndef f():\n    """Prints."""\n    print "old"\n')
    assert module_text("m", path) == "Module m\n\nAbout m.\n\nPrints."


def test_a_module_is_cut_near_the_word_cap(tmp_path):
    path = tmp_path / "m.py"
    path.write_text("".join(f'def f{i}():\n    """{LONG}"""\n' for i in range(100)))
    words = len(module_text("m", path).split())
    assert machine.MAX_WORDS <= words <= machine.MAX_WORDS + MIN_WORDS + 50


def test_only_documented_modules_outside_test_folders_count(library):
    for name, text in {
        "good.py": f'"""{LONG}"""',
        "licensed.py": f'#!/usr/bin/python\n# License\n\nr"""{LONG}"""',
        "inside.py": f'import x\n\ndef f():\n    """{LONG}"""\n',
        "short.py": '"""Short."""',
        "data.py": f'X = 1\nY = """{LONG}"""',
        "package/__init__.py": f'"""{LONG}"""',
        "package/tests/helper.py": f'"""{LONG}"""',
        "notes.txt": f'"""{LONG}"""',
    }.items():
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text(text)
    assert names(MachineCorpus()) == [
        "module:good", "module:inside", "module:licensed", "module:package"]


def test_a_machine_without_documentation_is_an_error(library):
    with pytest.raises(CorpusError, match="neither pydoc topics nor the standard library"):
        MachineCorpus()


def test_packages_are_read_and_not_imported():
    code = textwrap.dedent("""
        import sys
        from spade_jax.grounding import open_corpus
        before = set(sys.modules)
        corpus = open_corpus("machine")
        for index in range(0, len(corpus), len(corpus) // 8):
            corpus[index]
        packages = {name.partition(".")[0] for name in set(sys.modules) - before}
        print(sorted(packages - set(sys.stdlib_module_names) - {"spade_jax"}))
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_it_takes_no_argument():
    with pytest.raises(CorpusError, match="no argument"):
        open_corpus("machine:numpy")
