"""Names that are hostile to reports, and a result that is full of them."""

from __future__ import annotations

import functools

from pytest_kafkaperf.core.environment import Change, Part
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.scenarios.payloads import is_utf8
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.problems import notice_told
from tests.support.results import KnownCluster, result, rounds

NAMES = {
    "plain": "plain",
    "markup": "</script><script>alert(1)</script><b>&amp;</b><!-- ]]> -->",
    "markup of rich": "[red]x[/red] [/nothing] :tada: [link=x]",
    "per cent": "%s %(x)s %25 100%",
    "number signs": "#1%23 a#b",
    "backticks": "a`b``c```",
    "pipes": "a|b||c",
    "lists": "- a",
    "lines": "a\nb\r\nc\r::error::d\u2028e\x85f\n\n# g\n- h",
    "escapes": "\x1b[31mred\x1b]0;title\x07\x9b2J\b\b\x7f",
    "NUL": "a\0b",
    "directions": "\u202egnp.exe\u202c \u2066x\u2069 \u200f",
    "paths": "../../../etc/passwd",
    "other paths": "..\\..\\x C:\\y /etc/z",
    "dots": "..",
    "long": "x" * 5000,
    "long words": "word " * 1000,
    "beyond 16 bits": "\U0001f600 \U0001d4b3 値",
    "half pairs": "\ud800 \udfff",
    "quotes": "'\" $HOME `id` $(id)",
    "templates": "{{ 7 * 7 }} {% raw %} ${7 * 7}",
    "formulas": "=1+1 @x",
    "commands": "::set-output name=x::y",
    "blanks": "  a  b  ",
    "nothing": "",
}


TOPIC = f"{'A._-' * 62}b"
"""As long as a topic's name can be."""


@functools.cache
def hostile(name: str) -> Result:
    """A test in which everything that a user, a cluster or the system can name is that text."""
    text = name if is_utf8(name) else "x"  # a scenario takes no other
    scenario = {"topic": TOPIC, "payload": f"file:{text or 'x'}", "headers": {"h": text}, "duration": "5 s"}
    return result(
        f"test_x[{name}]",
        "produce.latency.p99 <= 1 ms",
        "produce.throughput >= baseline - 10%",
        baseline=rounds(),
        problems=[name.replace(";", ",")],  # what follows a semicolon would be advice, which has a line of its own
        file=f"tests/{name.replace(chr(0), '')}/test_orders.py",
        scenario=Scenario.of(scenario),
        sources={"topic": "marker", "payload": name, "headers": "parameter", "duration": "ini"},
        cluster=KnownCluster(bootstrap_servers="127.0.0.1:9092", provider="local", version=name),
        changed=(Change("image", name, "x", Part.BROKERS),),
        warnings=(notice_told(name),),
        notes=(notice_told(name),),
    )
