"""Reports itself as loaded while it is still being imported, without the class it must have."""
import os, signal, sys

frame = sys._getframe()
while not hasattr(frame.f_locals.get("request"), "id"):
    frame = frame.f_back
protocol = sys.modules["sandbox_runner.protocol"]
os.write(3, protocol.encode(protocol.Done(frame.f_locals["request"].id)))
signal.setitimer(signal.ITIMER_PROF, 0)
while True:
    pass

class HostileEnv:
    """Never reached."""
