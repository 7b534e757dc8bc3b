"""LoRA adapters of a running server: what is sent, and the one line that each refusal becomes."""

from pathlib import Path

import pytest

from ke_core.plugin import BadConfig, ModelUnavailable, ServerFailed

FOLDER = Path("/shared/facts")
MODELS = {"data": [{"id": "old", "parent": "smol"}, {"id": "smol", "parent": None, "max_model_len": 2048}]}


def error(status, message):
    return (status, {"error": {"message": message, "type": "any", "code": status}}, {})


UNKNOWN = error(404, "The lora adapter 'facts' cannot be found.")


@pytest.fixture
def adapters(serve, ask):
    """``adapters(answer)``: the adapters of a server, and the server."""

    def make(answer, listing=(200, MODELS, {})):
        server = serve(answer, listing=listing)
        return ask(server, id="facts").adapters, server

    return make


def test_the_base_model_is_the_first_model_without_a_parent(adapters):
    there, server = adapters(UNKNOWN)
    assert there.base_model("facts") == "smol"
    assert there.names() == ["old", "smol"]
    assert server.asked == [("/v1/unload_lora_adapter", {"lora_name": "facts"})]


def test_a_name_in_use_is_refused_before_anything_is_sent(adapters):
    there, server = adapters(UNKNOWN)
    for name in ("old", "smol"):
        with pytest.raises(BadConfig, match=f"already serves a model named '{name}'"):
            there.base_model(name)
    assert server.asked == []


@pytest.mark.parametrize("name", ["facts", "Not", "o"])
def test_a_server_without_the_routes_is_one_line_of_advice(adapters, name):
    there, _server = adapters((404, {"detail": "Not Found"}, {}))
    with pytest.raises(ModelUnavailable, match="cannot load adapters while it runs") as caught:
        there.base_model(name)
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True" in caught.value.hint
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("listing", [(200, {"data": []}, {}), (200, {"object": "list"}, {})])
def test_a_server_without_models_is_refused(adapters, listing):
    there, _server = adapters(UNKNOWN, listing=listing)
    with pytest.raises(ModelUnavailable, match="lists no base model"):
        there.base_model("facts")


def test_load_and_unload_send_name_and_path(adapters):
    there, server = adapters((200, b"Success: LoRA adapter 'facts' added successfully.", {}))
    there.load("facts", FOLDER, 2)
    there.unload("facts")
    assert server.asked == [
        ("/v1/load_lora_adapter", {"lora_name": "facts", "lora_path": "/shared/facts"}),
        ("/v1/unload_lora_adapter", {"lora_name": "facts"}),
    ]


def test_a_rank_above_the_limit_in_the_refusal_names_the_option(adapters):
    there, server = adapters(error(500, "Call to add_lora failed: LoRA rank 33 is greater than max_lora_rank 16."))
    with pytest.raises(BadConfig, match="rank 33, and the server accepts at most rank 16") as caught:
        there.load("facts", FOLDER, 33)
    assert "--max-lora-rank 64" in caught.value.hint
    assert len(server.asked) == 1  # status 500 is not tried again


def test_a_rank_above_a_reported_limit_is_refused_before_loading(adapters):
    there, server = adapters(UNKNOWN, listing=(200, {"vllm_config": {"lora_config": {"max_lora_rank": 16}}}, {}))
    with pytest.raises(BadConfig, match="rank 17, and the server accepts at most rank 16") as caught:
        there.load("facts", FOLDER, 17)
    assert "--max-lora-rank 32" in caught.value.hint
    assert server.asked == []


def test_a_rank_above_every_limit_is_refused_before_loading(adapters):
    there, server = adapters(UNKNOWN)
    with pytest.raises(BadConfig, match="rank 513, and vLLM serves at most rank 512"):
        there.load("facts", FOLDER, 513)
    assert server.asked == []


def test_a_folder_that_the_server_cannot_read_is_explained(adapters):
    there, _server = adapters(error(404, "Loading lora facts failed: No adapter found for /shared/facts"))
    with pytest.raises(ServerFailed, match="finds no adapter in /shared/facts") as caught:
        there.load("facts", FOLDER, 1)
    assert "its machine can read" in caught.value.hint


def test_other_refusals_keep_the_words_of_the_server(adapters):
    there, _server = adapters(error(500, "LoRA is not enabled."))
    with pytest.raises(ServerFailed, match="LoRA is not enabled"):
        there.load("facts", FOLDER, 1)
    with pytest.raises(ServerFailed, match="LoRA is not enabled"):
        there.unload("facts")
