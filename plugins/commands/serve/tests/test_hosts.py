"""Recognition of loopback hosts."""

from __future__ import annotations

from ke_plugin_serve.wire import host_name, is_loopback


def test_loopback_names_are_recognized() -> None:
    assert all(map(is_loopback, ("localhost", "LOCALHOST", "127.0.0.1", "127.0.0.2", "::1", "[::1]")))
    assert not any(map(is_loopback, ("[127.0.0.1]", "[localhost]", "[::1", "::1]", "[::1].example.org")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "192.0.2.1", "example.org", "127.0.0.1.example.org")))


def test_the_name_in_a_host_header_is_read_strictly() -> None:
    assert [host_name(text) for text in ("localhost:8000", "[::1]:80", "127.0.0.1", "Example.org")] == [
        "localhost",
        "[::1]",
        "127.0.0.1",
        "Example.org",
    ]
    assert not any(map(host_name, ("localhost:80@example.org", "[::1].example.org", "a:b", "a:1:2", "a\n", "", ":80")))
