from tests.text.conftest import chatml_path, chatml_tokenizer  # noqa: F401
