"""Loads a compiled module that lies in a folder it may read, to have native code nobody chose."""
import importlib.machinery, importlib.util, os, sys
import numpy

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        refusal = None
        for folder, _, files in os.walk(os.path.dirname(numpy.__file__)):
            for path in (os.path.join(folder, name) for name in files if name.endswith(".so")):
                if path in loaded:
                    continue
                name = os.path.basename(path).partition(".")[0]
                loader = importlib.machinery.ExtensionFileLoader(name, path)
                spec = importlib.util.spec_from_file_location(name, path, loader=loader)
                try:
                    importlib.util.module_from_spec(spec)
                    return f"ESCAPED: loaded {name}", 0.0, False, False, {}
                except (ImportError, OSError) as error:
                    refusal = error
        return f"refused: {type(refusal).__name__} None", 0.0, False, False, {}
