"""Folders of environments that were written in advance."""

import json

import pytest

from spade_jax.curricula import FolderError, read_folder
from tests.curricula.files import CONTRACT, GEM, RLVE


def test_files_come_in_the_order_of_their_names_with_what_lies_beside_them(tmp_path):
    (tmp_path / "b.py").write_text(CONTRACT)
    (tmp_path / "b.hint").write_text("say it\n")
    (tmp_path / "a.py").write_text(RLVE)
    (tmp_path / "a.json").write_text(json.dumps({"levels": [{"count": 2}], "skill": "sums"}))
    (tmp_path / "c.py").write_text(GEM)
    (tmp_path / "c.json").write_text(json.dumps({"hint": "halve", "stage": "off_skill"}))
    (tmp_path / "notes.txt").write_text("not one")
    found, rejections = read_folder(tmp_path)
    assert [(each.name, each.dialect, each.hint, each.skill) for each in found] == [
        ("a", "rlve", "", "sums"),
        ("b", "contract", "say it", ""),
        ("c", "gem", "halve", ""),
    ]
    assert found[0].limit == 1 and rejections == {}


def test_what_a_run_rejected_and_what_has_no_levels_is_left_out_and_named(tmp_path):
    (tmp_path / "bad.py").write_text(CONTRACT)
    (tmp_path / "bad.json").write_text(json.dumps({"stage": "leak", "reason": "shown"}))
    (tmp_path / "sum.py").write_text(RLVE)
    found, rejections = read_folder(tmp_path)
    assert found == [] and rejections["bad"] == "leak: shown"
    assert rejections["sum"].startswith("levels: neither")


def test_a_folder_or_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FolderError, match="expected a folder"):
        read_folder(tmp_path / "none")
    (tmp_path / "a.py").write_text(CONTRACT)
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(FolderError, match="expected a JSON object in a.json"):
        read_folder(tmp_path)
    (tmp_path / "a.json").unlink()
    (tmp_path / "a.py").write_bytes(b"\xff\xfe")
    with pytest.raises(FolderError, match="expected UTF-8 text in a.py"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ('{"hint": 3}', r"\$.hint"),
        ('{"skill": ["sums"]}', r"\$.skill"),
        ('{"levels": "many"}', r"\$.levels"),
        ('{"stage": {}}', r"\$.stage"),
        ('{"x": ' + "[" * 100_000, "recursion"),
        ("\ud800", ""),
    ],
)
def test_a_record_of_other_types_is_named(tmp_path, record, fault):
    (tmp_path / "a.py").write_text(CONTRACT)
    (tmp_path / "a.json").write_bytes(record.encode("utf-8", "surrogatepass"))
    with pytest.raises(FolderError, match=fault) as caught:
        read_folder(tmp_path)
    assert "a.json" in str(caught.value)
