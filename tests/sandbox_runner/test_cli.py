"""Exit codes and lines of `python -m sandbox_runner`."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_runner import cli
from sandbox_runner.confine import ALLOWABLE
from tests.sandbox_runner.shop import CALL, SHOP

DATA = Path(__file__).parent / "data"
SOUND = str(DATA / "sound/guess_number.py")
BROKEN = str(DATA / "unsound/does_not_parse.py")


def test_one_rejected_file_exits_1(capsys):
    assert cli.main(["check", "--json", SOUND, BROKEN]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    keys = ("file", "verdict", "stage")
    assert [tuple(line[key] for key in keys) for line in lines] == [
        (SOUND, "accept", None), (BROKEN, "reject", "parse")
    ]  # fmt: skip
    assert lines[0]["measurements"]["win_solution"] == 1.0 and "line 2" in lines[1]["reason"]


@pytest.mark.parametrize("arguments", [["check"], ["check", SOUND, "--max-turns", "0"], ["judge"]])
def test_wrong_usage_exits_2(arguments):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2


def test_a_file_that_cannot_be_read_exits_2(capsys):
    assert cli.main(["check", "no/such/file.py"]) == 2
    assert "cannot read" in capsys.readouterr().err


def test_play_reads_actions_and_shows_what_happens(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("0\n" * 8))
    assert cli.main(["play", SOUND, "--seed", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("I picked an integer")
    assert lines[1:] == ["The number is higher than 0."] * 8 + ["[truncated, reward 0]"]


def test_play_shows_tools_and_takes_calls_as_they_are(capsys, monkeypatch, tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{CALL}\n<answer>60</answer>\n"))
    assert cli.main(["play", str(tmp_path / "shop.py")]) == 0
    tool, *lines = capsys.readouterr().out.splitlines()
    assert json.loads(tool)["name"] == "price"
    assert lines == [
        "What do two pens cost?", '{"price": 30}', "Correct.", "[terminated, reward 1]"
    ]  # fmt: skip


def test_accepted_files_exit_0_also_from_another_folder(tmp_path):
    root = Path(__file__).resolve().parents[2]
    command = "import sys, runpy; sys.path.insert(0, sys.argv.pop(1)); "
    command += "runpy.run_module('sandbox_runner', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", command, str(root), "check", SOUND],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{SOUND}: accepted\n"


def test_doctor_names_every_layer_and_its_status_says_whether_it_is_safe(capsys):
    status = cli.main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert set(ALLOWABLE) < set(found["layers"])
    assert status == (0 if found["safe"] else 1)
    assert cli.main(["doctor"]) == status
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(found["layers"]) + 1
    assert all("present" in line or "missing: " in line for line in lines[:-1])


def test_attack_tells_of_each_program_and_succeeds_when_the_healthy_ones_do(capsys, tmp_path):
    (tmp_path / "b.py").write_text((DATA / "hostile/os_exit.py").read_text())
    (tmp_path / "a.py").write_text("not python at all")
    assert cli.main(["attack", str(tmp_path), "--json"]) == 0
    said = capsys.readouterr()
    first, second = map(json.loads, said.out.splitlines())
    assert set(first) == {"file", "started", "steps", "layer", "outcome"}
    assert (first["started"], first["layer"]) == (False, "parse")
    assert (second["started"], second["steps"], second["layer"]) == (True, 0, "process")
    assert "untouched" in said.err


def test_attack_says_so_when_a_neighbour_was_harmed(capsys, tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text((DATA / "hostile/os_exit.py").read_text())
    monkeypatch.setattr(cli.attack, "_walk", lambda pool: [["elsewhere"] * 4] * 4)
    assert cli.main(["attack", str(tmp_path)]) == 1
    assert "HARM" in capsys.readouterr().err


def test_attack_needs_programs(capsys, tmp_path):
    assert cli.main(["attack", str(tmp_path)]) == 2
    assert "no *.py file" in capsys.readouterr().err


def test_bench_measures_every_figure(capsys, monkeypatch):
    small = {"CHILDREN": 2, "STEPS": 3, "ROUNDS": 1, "_STARTS": 2, "_MANY": 3, "HUNG": 3}
    for name, value in (small | {"_SECONDS": 0.2}).items():
        monkeypatch.setattr(cli.bench, name, value)
    assert cli.main(["bench"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 4 and all(row["value"] > 0 for row in rows)
    assert rows[2]["share"] > 0 and rows[3]["failed"] == 0
