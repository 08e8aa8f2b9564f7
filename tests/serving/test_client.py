"""What goes over the wire: both dialects read whatever way they arrive, every fault one line that says what to do."""

import gc
import itertools
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_server import FAULTS, MODEL, PIECES, TEXT, FakeServer
from pipeline.errors import BadInput, MissingPart
from pipeline.serving import address, gateway
from pipeline.serving.client import same_model
from pipeline.serving.dialects import Ollama, OpenAI
from pipeline.serving.line import WireError
from pipeline.serving.stream import events, lines
from serving_fixtures import deaf_port, server_of

DIALECTS = pytest.mark.parametrize("dialect", [Ollama, OpenAI])
WAYS = pytest.mark.parametrize("ask", ["complete", "chat"])
SENTENCE = "The beekeeper opened the"
EXPECTED = {
    "slow to the first byte": "sent nothing for 0.3 s",
    "stalled": "stalled in mid-answer",
    "cut off": "cut its answer off",
    "404": "answered 404 (model 'qwen2.5:0.5b' not found)",
    "400": "answered 400 (invalid options)",
    "500": "answered 500 (llama runner died)",
    "503": "answered 503 (server busy)",
    "401": "answered 401",
    "HTML": "a web page (text/html), not JSON",
    "not JSON": "not JSON",
    "loading": "loaded the model but generated nothing",
    "error in mid-stream": "reported an error: out of memory",
    "wrong model": "answered with model 'llama3:8b' instead of 'qwen2.5:0.5b'",
    "endless": "was still answering after 1 s",
    "moved": "answered 302",
    "closed at once": "closed the connection without an answer",
}


def line(dialect, url: str, **limits):
    return dialect(url, MODEL, **{"connect_s": 0.3, "read_s": 0.3, "total_s": 1.0, **limits})


def asked(server, ask: str, **options):
    question = SENTENCE if ask == "complete" else [{"role": "user", "content": SENTENCE}]
    return getattr(server, ask)(question, max_tokens=7, temperature=0, **options)


# --- whole answers ---


@DIALECTS
@WAYS
@pytest.mark.parametrize(("stream", "newline"), [(False, b"\n"), (True, b"\n"), (True, b"\r\n")])
def test_seven_byte_writes_and_either_line_ending_give_the_whole_text(dialect, ask, stream, newline):
    with FakeServer() as fake:
        fake.writes_of, fake.newline = 7, newline  # cuts characters in half, and CR from LF
        exchange = asked(line(dialect, fake.url, read_s=5, total_s=20), ask, stream=stream)
    assert exchange.text == TEXT
    assert (exchange.model, exchange.finish, exchange.prompt_tokens, exchange.completion_tokens) == (
        MODEL,
        "length",
        10,
        len(PIECES),
    )
    if stream:
        assert [text for _, text in exchange.chunks] == PIECES
        assert [seconds for seconds, _ in exchange.chunks] == sorted(seconds for seconds, _ in exchange.chunks)


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"))), st.sampled_from(["\n", "\r\n", "\r"]), st.data()
)
def test_lines_are_whole_wherever_the_stream_is_cut(texts, newline, data):
    stream = "".join(text + newline for text in texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert list(lines(iter(chunks))) == texts


def test_events_may_have_comments_names_and_several_data_lines():
    stream = b': keep-alive\n\nevent: chunk\nid: 7\ndata: {"a":\ndata: 1}\n\ndata:{"b": 2}\n\ndata: [DONE]\n\ndata: {"c": 3}\n\n'
    assert list(events(iter([stream]))) == [{"a": 1}, {"b": 2}]


def test_a_count_that_is_missing_is_not_zero():
    with FakeServer() as fake:
        server = line(Ollama, fake.url)
        answer = {"model": MODEL, "response": "x", "done": True}
        exchange = server.read("/api/generate", {}, answer, None, 0.1, [])
    assert exchange.prompt_tokens is None and exchange.completion_tokens is None and exchange.finish is None


# --- faults ---


@DIALECTS
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_one_line_with_the_address_and_what_to_do(dialect, stream, fault):
    with FakeServer(fault) as fake, pytest.raises(WireError) as caught:
        asked(line(dialect, fake.url, total_s=1.0, read_s=0.3), "complete", stream=stream)
    message = str(caught.value)
    expected = EXPECTED.get(fault, "")
    if fault == "no fields":
        expected = "cut its answer off" if stream else "without '"
    assert expected in message
    assert fake.url in message and "\n" not in message and ": " in message
    assert isinstance(caught.value, MissingPart) and caught.value.exit_code == 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the connection that is left hanging
@DIALECTS
def test_headers_that_never_end_are_given_up(dialect):
    with FakeServer("slow headers") as fake, pytest.raises(WireError, match=r"did not begin its answer within 0\.5 s"):
        asked(line(dialect, fake.url, total_s=0.5), "complete")
    all_let_go()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_headers_that_never_end_are_given_up_behind_litellm(monkeypatch):
    monkeypatch.setattr(gateway, "TOTAL_S", 0.5)
    with FakeServer("slow headers") as fake, pytest.raises(MissingPart, match="litellm could not get an answer"):
        gateway.chat(server_of(fake, "openai"), [{"role": "user", "content": SENTENCE}], max_tokens=7)
    all_let_go()


def all_let_go() -> None:
    """Wait for the threads that hang on a server that is gone now, and for what they hold."""
    for thread in threading.enumerate():
        if thread.name == "within":
            thread.join(5)
    gc.collect()


def test_a_missing_model_names_the_command_that_fetches_it():
    with FakeServer("404") as fake, pytest.raises(WireError, match=r"run `ollama pull qwen2\.5:0\.5b`"):
        asked(line(Ollama, fake.url), "complete")


def test_a_refused_connection_names_the_address_that_was_tried():
    url = closed_port()
    with pytest.raises(WireError, match=rf"^{url}/api/generate cannot be reached \(tried 127\.0\.0\.1\): start the server"):
        asked(line(Ollama, url), "complete")


def test_an_unreachable_address_is_given_up_in_time():
    with deaf_port() as url, pytest.raises(WireError, match="did not take the connection within"):
        asked(line(OpenAI, url), "complete")


def test_a_name_that_does_not_resolve_is_one_line():
    with pytest.raises(WireError, match="the name does not resolve"):
        asked(line(OpenAI, "http://no-such-host.invalid:1"), "complete")


def test_an_answer_that_grows_without_end_is_given_up_by_size(monkeypatch):
    monkeypatch.setattr("pipeline.serving.line.MAX_BYTES", 1000)
    with FakeServer("endless") as fake, pytest.raises(WireError, match="without an end"):
        asked(line(OpenAI, fake.url, total_s=10), "complete", stream=True)


def test_a_model_that_only_loads_is_asked_once_more():
    with FakeServer("loads once") as fake:
        assert asked(line(Ollama, fake.url), "complete").text == TEXT
        assert len(fake.posts()) == 2


def test_a_post_that_was_sent_is_never_sent_twice():
    for fault in ("500", "503", "slow to the first byte", "closed at once"):
        with FakeServer(fault) as fake:
            with pytest.raises(WireError):
                asked(line(OpenAI, fake.url), "complete")
            assert len(fake.posts()) == 1, fault


# --- what is sent ---


@DIALECTS
def test_an_unknown_option_is_refused_before_anything_is_sent(dialect):
    with FakeServer() as fake:
        with pytest.raises(BadInput, match="tempratur: no such option"):
            line(dialect, fake.url).complete(SENTENCE, tempratur=0)
        assert fake.asked == []


def test_the_request_recorded_is_the_request_sent():
    for dialect in (Ollama, OpenAI):
        with FakeServer() as fake:
            exchange = asked(line(dialect, fake.url), "chat")
            assert fake.asked == [("POST", exchange.path, exchange.request, fake.asked[0][3])]


def test_requests_to_one_server_run_one_after_another():
    with FakeServer() as fake:
        fake.writes_of = 20
        servers = [line(OpenAI, fake.url, read_s=5, total_s=20) for _ in range(3)]
        threads = [threading.Thread(target=asked, args=(server, "complete"), kwargs={"stream": True}) for server in servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spans = sorted(fake.spans)
    assert len(spans) == 3 and all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_a_dead_proxy_does_not_stand_before_loopback(monkeypatch, name):
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with FakeServer() as fake:
        assert asked(line(OpenAI, fake.url), "complete").text == TEXT


def test_a_dead_proxy_before_another_host_is_named(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(WireError, match="through the proxy that the environment names"):
        asked(line(OpenAI, "http://models.example"), "complete")


def test_localhost_works_when_it_resolves_to_ipv6_first(monkeypatch):
    real = address.socket.getaddrinfo

    def ipv6_first(host, *arguments, **named):
        found = real("127.0.0.1" if host == "localhost" else host, *arguments, **named)
        six = (address.socket.AF_INET6, address.socket.SOCK_STREAM, 6, "", ("::1", found[0][4][1], 0, 0))
        return [six, *found]

    monkeypatch.setattr(address.socket, "getaddrinfo", ipv6_first)
    with FakeServer() as fake:
        assert asked(line(OpenAI, fake.url.replace("127.0.0.1", "localhost")), "complete").text == TEXT
    with pytest.raises(WireError, match=r"tried ::1, 127\.0\.0\.1"):
        asked(line(OpenAI, closed_port().replace("127.0.0.1", "localhost")), "complete")


def test_a_key_goes_into_the_header_and_into_no_error(monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with FakeServer("401") as fake, pytest.raises(WireError) as caught:
        asked(line(OpenAI, fake.url, key="sk-planted"), "complete")
    assert fake.asked[0][3]["authorization"] == "Bearer sk-planted"
    assert "sk-planted" not in str(caught.value)


def test_a_key_that_a_long_error_repeats_is_taken_out_before_the_error_is_cut(monkeypatch):
    key = "sk-planted-" + "0123456789" * 4
    monkeypatch.setattr("fake_server.KEY_SAID", "x" * 140 + key)
    with FakeServer("401") as fake, pytest.raises(WireError) as caught:
        asked(line(OpenAI, fake.url, key=key), "complete")
    assert "sk-planted" not in str(caught.value)


def test_fetching_a_model_may_take_more_bytes_than_an_answer(monkeypatch):
    monkeypatch.setattr("pipeline.serving.line.MAX_BYTES", 100)
    with FakeServer(held=False) as fake:
        assert [message["status"] for message in line(Ollama, fake.url).pull()][-1] == "success"


def test_a_model_answers_to_its_name_with_or_without_owner_and_tag():
    assert same_model("qwen2.5:0.5b", "qwen2.5:0.5b") and same_model("Qwen/Qwen2.5", "qwen2.5") and same_model("m", "m:latest")
    assert same_model("gpt-x", "gpt-x-2026-01-01")
    assert not same_model("qwen2.5:0.5b", "llama3:8b") and not same_model("qwen2.5", "")


def test_only_the_wire_opens_connections_to_servers():
    from pipeline.paths import BUILD

    users = {path.name for path in BUILD.rglob("*.py") if "import requests" in path.read_text("utf-8")}
    assert users == {"line.py"}


def closed_port() -> str:
    with FakeServer() as fake:
        return fake.url


def test_the_fake_serves_what_the_facts_say():
    with FakeServer() as fake:
        assert line(Ollama, fake.url).version() == "0.32.0"
        assert json.dumps(line(Ollama, fake.url).tag()) and line(OpenAI, fake.url).models() == [MODEL]
