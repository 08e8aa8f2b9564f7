"""Where a server is, as people write it, and the key to it: what is taken, what is refused, and what is never shown."""

import pytest

from pipeline.errors import BadInput
from pipeline.serving.address import base_url, is_loopback, key_in, ollama_url


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_a_base_url_may_end_as_people_write_it(ending):
    assert base_url(f"http://127.0.0.1:8000{ending}") == "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("given_host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234"),
        ("http://0.0.0.0:1234/", "http://127.0.0.1:1234"),
        ("https://models.example", "https://models.example"),
        ("http://models.example:80", "http://models.example:80"),
        ("models.example", "http://models.example:11434"),
        ("[::1]:11434", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        ("::", "http://[::1]:11434"),
    ],
)
def test_an_ollama_host_may_lack_any_of_its_parts(given_host, url):
    assert ollama_url(given_host) == url


@pytest.mark.parametrize(
    "given_url", ["ftp://host", "http://", "http://host:notaport", "http://a b", "http://me:key@host", "http://h?key=1"]
)
def test_what_is_no_server_address_is_refused_and_says_how_to_write_one(given_url):
    with pytest.raises(BadInput, match="http://host:port"):
        base_url(given_url)


@pytest.mark.parametrize("given", ["http://[::1", "http://host:port", "ftp://host", "http://a b"])
def test_a_wrong_address_is_named_with_its_variable(given):
    with pytest.raises(BadInput, match=r"OPENAI_BASE_URL .* is not a server address"):
        base_url(given, "OPENAI_BASE_URL")


@pytest.mark.parametrize("scheme", ["http://", "ftp://", ""])
@pytest.mark.parametrize("rest", ["", ":1", ":port", "?x", "/v1"])
def test_credentials_in_an_address_are_never_shown(scheme, rest):
    with pytest.raises(BadInput, match="must not hold a user name or a key") as caught:
        base_url(f"{scheme}me:sk-planted@host{rest}")
    assert "planted" not in str(caught.value)


@pytest.mark.parametrize("given", ["sk-planted\r", " sk-planted\n", "sk-planted"])
def test_a_key_comes_without_the_white_space_around_it(monkeypatch, given):
    monkeypatch.setenv("SOME_KEY", given)
    assert key_in("SOME_KEY") == "sk-planted"
    monkeypatch.setenv("SOME_KEY", "  ")
    assert key_in("SOME_KEY") is None


@pytest.mark.parametrize("given", ["sk-pl\ranted", "sk-planted-é"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(monkeypatch, given):
    monkeypatch.setenv("SOME_KEY", given)
    with pytest.raises(BadInput, match=r"^SOME_KEY holds a character") as caught:
        key_in("SOME_KEY")
    assert "sk-" not in str(caught.value)


def test_loopback_is_known_by_name_and_by_number():
    assert all(is_loopback(f"http://{host}:1") for host in ("localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]"))
    assert not any(is_loopback(f"http://{host}:1") for host in ("models.example", "10.0.0.1", "localhost.example"))
