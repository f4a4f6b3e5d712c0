"""Asks for a socket of each family: one forgotten is a way out, or into the kernel."""
import socket

class HostileEnv:
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = max_turns
    def reset(self, seed=None):
        return "ready", {}
    def step(self, action):
        got, refusal = [], None
        for family in range(1, 46):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW,
                         socket.SOCK_SEQPACKET):
                try:
                    socket.socket(family, kind).close()
                    got.append((family, int(kind)))
                except OSError as error:
                    refusal = refusal or error
        report = f"refused: {type(refusal).__name__} {refusal.errno}"
        return f"ESCAPED: {got}" if got else report, 0.0, False, False, {}
