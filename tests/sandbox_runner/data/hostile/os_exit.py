"""Hostile environment: ends its process."""
class HostileEnv:
    def __init__(self,**k): pass
    def reset(self,seed=None):
        return 'hi',{}
    def step(self,a):
        import os; os._exit(3)
