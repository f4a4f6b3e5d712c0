import random, re
class SearchEnv:
    N = 5
    LOW = "blue"
    HIGH = "white"
    NAME = "siding"
    def __init__(self, max_turns=5, **kwargs):
        self.max_turns = min(max_turns, 5)
        self.reset()
    def reset(self, seed=None):
        rng = random.Random(seed)
        self.turn = self.right = 0
        self.low, self.high = 1, self.N + 8
        self.answer = rng.randint(self.low, self.high)
        return self.look(), {}
    def look(self):
        return f"{self.NAME} in {self.low} {self.high}"
    def solution(self):
        return str(self.answer)
    def step(self, action):
        found = re.search(r"\{(\d{1,2})\}", action)
        guess = int(found.group(1)) if found else 0
        self.turn += 1
        if guess == self.answer:
            return "done", 1.0, True, False, {}
        text = self.look()
        if self.low <= guess <= self.high:
            lamp = self.LOW if self.answer < guess else self.HIGH
            text = f"{lamp}, {self.low} {guess - 1} or {guess + 1} {self.high}"
            if self.answer < guess:
                self.high = guess - 1
            else:
                self.low = guess + 1
        return text, 0.0, False, self.turn >= self.max_turns, {}
