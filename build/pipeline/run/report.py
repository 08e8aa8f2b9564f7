"""The report of a `--check`: one HTML file that needs nothing else, with old and new figure side by side where they drifted."""

import base64
import html
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.drawing.worker import draw_slide
from pipeline.keys import without_keys
from pipeline.paths import Out
from pipeline.run.outcome import Comparison

MOST = 200  # differences listed for one slide
STYLE = """body{font:16px/1.5 sans-serif;margin:2em auto;max-width:1400px;padding:0 1em;color:#222;background:#fff}
img{width:100%;border:1px solid #bbb}.pair{display:grid;grid-template-columns:1fr 1fr;gap:1em}
table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #bbb;padding:.2em .6em;text-align:left;vertical-align:top}
td{overflow-wrap:anywhere}figure{margin:0}.bad{color:#a00}"""


def write(path: Path, found: Sequence[Comparison], out: Out) -> None:
    """Write the report of everything that a check found."""
    with tempfile.TemporaryDirectory() as folder:
        body = "".join(_section(one, out, Path(folder)) for one in sorted(found, key=lambda one: not worth_a_look(one)))
    drifted, apart = sum(map(worth_a_look, found)), sum(bool(one.not_comparable) for one in found)
    told = f"{len(found)} captures taken again, {drifted} drifted or failed, {apart} not comparable"
    head = f"<meta charset=utf-8><title>{told}</title><style>{STYLE}</style>"
    page = f"<!doctype html><html lang=en>{head}<h1>{told}</h1>{body}</html>"
    path.write_text(without_keys(page), "utf-8")


def worth_a_look(one: Comparison) -> bool:
    return bool(one.drift or one.row.failure)


def _section(one: Comparison, out: Out, folder: Path) -> str:
    slide = one.row.slide
    title = f"<h2>{slide.number} · {_text(slide.id)}</h2><p>{_text(slide.claim)}</p>"
    if one.row.failure:
        said = f"<p class=bad>The oracle fails: {_text(one.row.failure)}</p>"
        return title + said + f"<div class=pair>{_figure('committed', out.figure(slide.id))}</div>"
    verdict = one.row.verdict
    holds = f"<p>Holds here: {_text(verdict.measured)} · {_text(verdict.bound)}.</p>" if verdict else ""
    if one.not_comparable:
        return f"{title}{holds}<p>Not comparable: {_text(one.not_comparable)}.</p>"
    if not one.drift:
        kept = "The clock is not compared; the claim is kept." if slide.volatile else "No drift."
        return f"{title}{holds}<p>{kept}</p>"
    cells = "".join(f"<tr>{''.join(f'<td>{_text(cell)}' for cell in drift.cells())}</tr>" for drift in one.drift[:MOST])
    more = f"<p>and {len(one.drift) - MOST} more</p>" if len(one.drift) > MOST else ""
    table = f"<table><tr><th>field<th>was<th>is<th>bound</tr>{cells}</table>{more}"
    pair = _figure("committed", out.figure(slide.id)) + _drawn(one, folder / "figure.png")
    return f"{title}{holds}<p class=bad>Drifted in {len(one.drift)} places.</p>{table}<div class=pair>{pair}</div>"


def _drawn(one: Comparison, figure: Path) -> str:
    """The figure of the capture that was taken now."""
    assert one.retaken and one.row.verdict
    try:
        draw_slide(one.row.slide, one.retaken, one.row.verdict, figure)
    except Exception as error:  # a report is the place to say so
        return f"<p class=bad>What was taken now cannot be drawn: {_text(str(error))}</p>"
    return _figure("taken now", figure)


def _figure(name: str, path: Path) -> str:
    try:
        data = base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return f"<p class=bad>The {name} figure is missing.</p>"
    return f'<figure><figcaption>{name}</figcaption><img alt="the {name} figure" src="data:image/png;base64,{data}"></figure>'


def _text(value: Any) -> str:
    return html.escape(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
