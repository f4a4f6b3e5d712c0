"""Writes and copies files through SQLite, whose C code opens them without Python's open."""
import os, sqlite3

PATH = "/tmp/hostile_left.db"

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        refusal = None
        for statement in (f"attach '{PATH}' as out", "create table out.t as select 1",
                          f"vacuum into '{PATH}'", "select load_extension('libm.so.6')"):
            try:
                sqlite3.connect(":memory:").executescript(statement)
            except sqlite3.Error as error:
                refusal = error
        if os.path.exists(PATH):
            return f"ESCAPED: wrote {PATH}", 0.0, False, False, {}
        return f"refused: {type(refusal).__name__} None", 0.0, False, False, {}
