"""The assembled page: whole, alone, escaped, the same bytes from the same input; and the server that presents it."""

import base64
import hashlib
import html
import io
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
from PIL import Image

from deck_fixtures import HOSTILE
from decks import ONE_CALL
from pipeline.deck import page as deck_page
from pipeline.deck import present
from pipeline.paths import REPO

LIMIT_BYTES = 8_000_000


def test_the_committed_deck_is_under_eight_megabytes_and_shows_every_slide(deck, deck_html):
    page = deck_html.read_text("utf-8")
    assert len(page.encode()) < LIMIT_BYTES
    assert re.findall(r'<section [^>]*id="slide-(\d+)"', page) == [str(one.slide.number) for one in deck]


@pytest.mark.parametrize("count", [1, 17, 33, 39])
def test_any_number_of_slides_makes_a_deck(made, count):
    page = deck_page.html(ONE_CALL, made(count))
    assert page.count("<section ") == count
    assert page.count('class="unseen" id="heading-') == count
    assert f"</b> / {count}</span>" in page


def test_one_slide_from_the_middle_makes_a_deck(made):
    page = deck_page.html(ONE_CALL, made(1, first=21))
    assert 'id="slide-21"' in page and '<span class="part">A part</span>' in page


def test_tokens_claims_and_sentences_are_escaped(made):
    page = deck_page.html(ONE_CALL, made(2))
    for token in HOSTILE:
        shown = html.escape(token.replace("\n", "\\n").replace("\t", "\\t").replace("\u202e", "\\u{202e}").replace(" ", "␣"))
        assert f'<code class="tok">{shown}</code>' in page
    assert "claim 2 &amp; more" in page and "Section &lt;2&gt;" in page and "measured &lt;1&gt;" in page
    assert "A &lt;i&gt;sentence&lt;/i&gt;\\nof two lines" in page
    assert not re.search(r"<(b|i)>(?!\d|</i>)", page.partition("<main")[2].partition("<aside")[0])


def test_every_figure_has_the_alternative_text_of_its_capture(deck, deck_html):
    alts = re.findall(r'<img [^>]*alt="([^"]+)"', deck_html.read_text("utf-8"))
    assert len(alts) == len(deck) == len(set(alts))
    for one, alt in zip(deck, alts, strict=True):
        assert len(alt) > 40 and ".png" not in alt, f"{one.slide.id}: the alternative text says too little: {alt!r}"


def test_figures_are_embedded_without_loss(deck, deck_html):
    images = re.findall(r'<img src="data:image/(\w+);base64,([^"]+)" width="(\d+)" height="(\d+)"', deck_html.read_text("utf-8"))
    for one, (kind, data, width, height) in zip(deck, images, strict=True):
        with Image.open(io.BytesIO(base64.b64decode(data))) as shown, Image.open(one.figure) as drawn:
            assert shown.format.lower() == kind
            assert shown.size == drawn.size == (int(width), int(height))
            assert shown.convert("RGB").tobytes() == drawn.convert("RGB").tobytes(), one.slide.id


def test_the_page_asks_for_nothing_outside_itself(deck_html):
    page = deck_html.read_text("utf-8")
    assert not re.search(r"""(?:src|href|action)\s*=\s*["'](?!data:|#)""", page)
    assert not re.search(r"@import|url\((?!.data:)|fetch\(|XMLHttpRequest|WebSocket|sendBeacon", page)
    assert "default-src 'none'" in page


def test_the_evidence_names_what_was_measured_and_how_to_take_it_again(made):
    server = {"kind": "embedded", "name": "a-server", "version": "1.2", "model": "served-model", "digest": None}
    rows = dict(deck_page.evidence(made(1, server=server)[0]))
    assert rows["Measured"] == "measured <1>" and rows["Bound"] == "bound & 2" and rows["Verdict"] == "✓ holds"
    assert rows["Model"] == "a-model" and rows["Model sha256"] == "ab" * 32 and rows["Model revision"] == "not reported"
    assert rows["Server"] == "a-server" and rows["Server model"] == "served-model" and rows["Server digest"] == "not reported"
    assert rows["Versions"] == "numpy 2, torch 1" and rows["Seed"] == "20"
    assert "python build/regen_all.py --only made_1/slide_1 --force" in deck_page.html(ONE_CALL, made(1))


def test_a_slide_without_a_model_has_evidence_too(made):
    rows = dict(deck_page.evidence(made(1, model=None, versions={})[0]))
    assert "Model" not in rows and rows["Versions"] == "not reported"


def test_the_title_counts_what_the_deck_holds(made):
    server = {"name": "a-server", "version": "1.2"}
    shown = [*made(2, server=server), *made(1, first=3, kind="concept")]
    facts = dict(deck_page.title_facts(shown))
    assert facts["In this deck"] == "2 photographs, 1 concept card"
    assert (facts["Model"], facts["Server"]) == ("a-model, 1,234,567 parameters", "a-server 1.2")
    assert dict(deck_page.title_facts(made(1, model=None))) == {"In this deck": "1 photograph"}


def test_the_same_deck_gives_the_same_page_whatever_the_hash_seed(deck):
    code = (
        "from hashlib import sha256; from decks import ONE_CALL; from deck_fixtures import committed_deck;"
        "from pipeline.deck import page, powerpoint; deck = committed_deck();"
        "print(sha256(page.html(ONE_CALL, deck).encode()).hexdigest(), sha256(powerpoint.pptx(ONE_CALL, deck)).hexdigest())"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(REPO / "build"), str(REPO / "tests")])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert hashlib.sha256(deck_page.html(ONE_CALL, deck).encode()).hexdigest() in said.pop()


# --- make present ---


@pytest.fixture
def presented(tmp_path):
    page = tmp_path / "index.html"
    page.write_text("<meta content=\"default-src 'none'; img-src data:\"><body>a deck</body>", "utf-8")
    server = present.server(page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield page, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def get(address: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=10) as answer:
        return answer.read().decode()


def test_the_presented_page_looks_for_a_rebuild_and_the_built_one_does_not(presented, deck_html):
    page, address = presented
    assert "location.reload" in get(address + "/?presenter") and "connect-src 'self'" in get(address + "/")
    assert "location.reload" not in page.read_text("utf-8") and "location.reload" not in deck_html.read_text("utf-8")
    assert present.served(deck_html.read_bytes()).count(b"location.reload") == 1
    assert b"connect-src 'self'" in present.served(deck_html.read_bytes())


def test_a_rebuild_changes_what_the_page_asks_for(presented):
    page, address = presented
    before = get(address + "/version")
    assert before == get(address + "/version")
    os.utime(page, ns=(1, 1))
    assert get(address + "/version") != before


def test_only_the_deck_is_served(presented):
    page, address = presented
    (page.parent / "secret").write_text("x", "utf-8")
    for path in ("/secret", "/../secret", "/deck.pdf"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(address + path)
        assert refused.value.code == 404
        refused.value.close()
    page.unlink()
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(address + "/")
    assert refused.value.code == 503
    refused.value.close()


def test_presenting_what_is_not_built_says_what_to_do(tmp_path, capsys):
    assert present.main(["--deck", str(tmp_path / "none.html"), "--no-open"]) == 3
    assert "run make deck first" in capsys.readouterr().err


def test_presenting_on_a_port_in_use_says_what_to_do(presented, capsys):
    page, address = presented
    port = address.rpartition(":")[2]
    assert present.main(["--deck", str(page), "--no-open", "--port", port]) == 2
    error = capsys.readouterr().err
    assert "cannot be used" in error and error.count("\n") == 1
