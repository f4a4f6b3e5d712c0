"""What goes wrong with a model behind a server."""


class RemoteError(RuntimeError):
    """One question got no usable answer; the text says why. Data for whoever asked: a run goes on.

    Attributes:
        kind: "timeout", "connection", "status" (the server failed or is busy), "question" (it turns
            this one down, for example as too long), "reply" (it sent something else than an answer)
            or "breaker" (it was not asked: see `RemoteModel`).
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


class RemoteSetupError(RuntimeError):
    """Every question must fail: no package, no key, no address, or one of them or the model is
    denied by the server."""
