"""The report of a check: one page that needs nothing else, and says of every slide what became of it."""

import json
import re

from decks import ONE_CALL
from pipeline.paths import COMMITTED
from pipeline.run import report
from pipeline.run.compare import differences
from pipeline.run.outcome import Comparison, Row
from pipeline.slide import assert_holds

BY_ID = {slide.id: slide for slide in ONE_CALL.slides}


def taken(slide_id: str) -> Comparison:
    capture = json.loads(COMMITTED.capture(slide_id).read_text("utf-8"))
    return Comparison(Row(BY_ID[slide_id], assert_holds(BY_ID[slide_id], capture["data"])), retaken=capture)


def test_a_report_shows_drift_with_both_figures_and_says_why_the_rest_was_not_compared(tmp_path):
    drifted, apart, failed = taken("quantization/rounding"), taken("why_vllm/block_table"), taken("why_vllm/slab_or_pages")
    changed = {**drifted.retaken["data"], "step": 0.2, "formula": "<b>&"}
    drifted.drift = list(differences(drifted.retaken["data"], changed, drifted.row.slide.tolerance))
    apart.not_comparable = "taken from <another> server"
    failed.row.failure = "the oracle said no"
    report.write(tmp_path / "report.html", [apart, failed, drifted, taken("continuous_batching/slots")], COMMITTED)
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "4 captures taken again, 2 drifted or failed, 1 not comparable" in page
    assert "<td>step<td>0.133202<td>0.2<td>± 0.001 + 0.001 × 0.133202" in page
    assert "&lt;b&gt;&amp;" in page and "<b>" not in page
    assert "Not comparable: taken from &lt;another&gt; server." in page and "the oracle said no" in page and "No drift." in page
    section = page[page.index("quantization/rounding") :]
    assert section.index("the committed figure") < section.index("the taken now figure")
    assert page.count("data:image/png;base64,") == 3
    assert not re.search(r'(src|href)=(?!"data:)', page) and "<script" not in page


def test_what_cannot_be_drawn_is_said_so(tmp_path):
    one = taken("quantization/rounding")
    one.drift = list(differences({"x": 1}, {"x": 2}, one.row.slide.tolerance))
    one.retaken["data"] = {}
    report.write(tmp_path / "report.html", [one], COMMITTED)
    assert "cannot be drawn" in (tmp_path / "report.html").read_text("utf-8")
