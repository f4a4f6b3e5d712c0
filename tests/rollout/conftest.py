from tests.text.conftest import (  # noqa: F401
    chatml_path,
    chatml_tokenizer,
    model_path,
    sources,
    tokenizer,
)
