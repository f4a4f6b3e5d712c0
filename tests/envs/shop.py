"""An environment of several requests, and what is said in it."""

DONE = "<answer>done</answer>"
SHOP = '''
class ShopEnv(MultiTurnToolUseEnv):
    """Buy what is asked for; a price is known once it was looked up."""

    def reset(self, seed=None):
        self.begin()
        fields = {"item": {"type": "string"}}
        self._tools = {
            name: {"description": text, "parameters": {"type": "object", "properties": fields}}
            for name, text in (("price", "of an item"), ("buy", "an item"))
        }
        self._state = {"cart": []}
        self._user_messages = ["Buy a pen.", "Buy ink.", "Buy paper."]
        self._message_criteria = [
            lambda state: "pen" in state["cart"],
            lambda state: "ink" in state["cart"],
            lambda state: "paper" in state["cart"],
        ]
        return "A shop.", {}

    def tool_price(self, item):
        return str(len(item))

    def tool_buy(self, item):
        self._state["cart"].append(item)
        return "bought " + item

    def solution(self):
        call = '<tool_call>{"name": "buy", "arguments": {"item": "%s"}}</tool_call>'
        items = "pen", "ink", "paper"
        return "\\n".join(f"{call % item}\\n<answer>done</answer>" for item in items)
'''


def call(name, item):
    return f'<tool_call>{{"name": "{name}", "arguments": {{"item": "{item}"}}}}</tool_call>'
