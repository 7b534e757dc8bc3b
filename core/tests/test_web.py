"""Bodies are read up to a limit, and truncated bodies are errors."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest

from ke_core.storage.files import read_at_most, read_error_body
from ke_testing.http_server import QuietHandler, serving


class Rude(QuietHandler):
    """``/STATUS/DECLARED/SENT``: a body of SENT bytes that declares DECLARED bytes; ``chunked`` is truncated."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # noqa: N802  the name in http.server
        _, status, declared, sent = self.path.split("/")
        self.send_response(int(status))
        self.send_header("Connection", "close")
        if declared == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        elif declared != "none":
            self.send_header("Content-Length", declared)
        self.end_headers()
        self.wfile.write(b"ff\r\n" * (declared == "chunked") + b"x" * int(sent))
        self.close_connection = True


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Rude) as address:
        yield address


def opened(address: str):
    return build_opener(ProxyHandler({})).open(address, timeout=20)


@pytest.mark.parametrize("declared", ["1000", "none"])
def test_a_body_up_to_the_limit_is_read_and_a_larger_one_is_not(url: str, declared: str) -> None:
    with opened(f"{url}/200/{declared}/1000") as answer:
        assert read_at_most(answer, 1000) == b"x" * 1000
    with opened(f"{url}/200/{declared}/1000") as answer, pytest.raises(ValueError, match="an answer of more than"):
        read_at_most(answer, 999)


@pytest.mark.parametrize("declared", ["1000", "chunked"])
def test_a_truncated_body_raises_an_error(url: str, declared: str) -> None:
    with opened(f"{url}/200/{declared}/10") as answer, pytest.raises(HTTPException):
        read_at_most(answer, 5000)


@pytest.mark.parametrize(("declared", "said"), [("10", b"x" * 10), ("1000", b"x" * 10), ("chunked", b"")])
def test_an_unreadable_error_body_is_empty(url: str, declared: str, said: bytes) -> None:
    with pytest.raises(HTTPError) as caught:
        opened(f"{url}/500/{declared}/10")
    with caught.value as error:
        assert read_error_body(error) == said
