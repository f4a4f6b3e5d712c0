import random, re
class PressEnv:
    N = 4
    NAME = "signal"
    def __init__(self, max_turns=8, **kwargs):
        self.max_turns = min(max_turns, 4 + self.N // 20)
        self.reset()
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn = self.right = 0
        self.left = rng.sample(range(1, self.N + 6), 3 + self.N // 20)
        return self.look(), {}
    def look(self):
        return f"{self.NAME} keys {' '.join(map(str, self.left))}"
    def order(self):
        return sorted(self.left, reverse=True)
    def solution(self):
        return "\n".join(map(str, self.order()))
    def step(self, action):
        found = re.search(r"\{(\d{1,2})\}", action)
        answer = (self.order() or [0])[0]
        good = bool(found) and int(found.group(1)) == answer
        self.left = [v for v in self.left if v != answer or not good]
        self.turn += 1
        if not self.left:
            return "done", 1.0, True, False, {}
        text = "yes" if good else f"no {answer}"
        text = f"{text}, {self.look()}"
        return text, 0.0, False, self.turn >= self.max_turns, {}
