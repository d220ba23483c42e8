"""Run files: what is written is read back, and what is not a run file is refused with reasons."""

import json
import math
import zlib
from pathlib import Path
from typing import Any

import pytest

import synthetic
from duetbench.core.errors import FlagName, RecordError
from duetbench.core.model import CaseResult, Run
from duetbench.store import files
from duetbench.store.comparison import Comparison

ROOT = Path(__file__).parents[2]


def small_run() -> Run:
    case = synthetic.make_case("x/json/py3.14")
    good = synthetic.ok(case.id, 0, {"throughput": 1234.56789, "requests": 1234567.0})
    bad = synthetic.failed(case.id, 1, FlagName.WRONG_ANSWER, "expected 'a', found 'b'")
    return synthetic.make_run([CaseResult(case=case, launches=(good, bad))])


def document(run: Run | None = None) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(files.encode(run or small_run()))
    return parsed


def refused(content: object) -> str:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(RecordError) as caught:
        files.parse(Run, data, "some.json")
    message = str(caught.value)
    assert message.startswith("some.json: ")
    return message


def test_a_run_is_read_back_as_it_was() -> None:
    run = synthetic.nightly_run(cases=8)
    assert files.parse(Run, files.encode(run), "x") == run


def test_figures_have_six_digits_and_counts_all_of_theirs() -> None:
    """1234.56789 is kept as 1234.57; the count 1,234,567 exactly; a failed launch has none."""
    good, bad = document()["results"][0]["launches"]
    assert (good["metrics"], bad["metrics"]) == ({"throughput": 1234.57, "requests": 1234567}, {})
    assert (good["seconds"], good["load_seconds"]) == (17.8312, 13.0123)


def test_a_nightly_run_fits_its_budget() -> None:
    """80 cases, 3 launches, 34 figures each with realistic scatter: at most 50 KB compressed."""
    run = synthetic.nightly_run(cases=80, launches=3)
    data = files.encode(run)
    assert len(run.results[0].launches[0].metrics) >= 34
    assert len(zlib.compress(data)) <= 50_000


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_figure_that_is_no_number_is_never_recorded(wrong: float) -> None:
    with pytest.raises(ValueError, match="throughput\n  Input should be a finite number"):
        synthetic.ok("x/json/a", 0, {"throughput": wrong})


@pytest.mark.parametrize("found", [1, 3, "2"])
def test_other_formats_are_refused_with_what_can_be_read(found: object) -> None:
    message = refused({**document(), "format": found})
    assert "expected a run file of format 2: format: Input should be 2, found " in message
    assert "update duetbench (uv tool upgrade duetbench)" in message


def test_what_is_not_a_run_file_is_refused() -> None:
    whole = files.encode(small_run())
    for content, text in (
        (b"", "an empty file"),
        (whole[:-20], "truncated"),
        (b"\xff\xfe\x00", "can't decode"),
        ([1, 2], "expected a run file"),
        ({"id": "x"}, "expected a run file"),
        (whole.replace(b"1234.57", b"NaN"), "found nan"),
        (whole.replace(b"1234.57", b"1e999"), "found 1e999"),
        (whole.replace(b'"seed":1', b'"seed":1,"seed":2'), "'seed' twice"),
        (whole.replace(b'"seed":1', b'"seed":1,"seed":1').replace(b"0.1.0", b"\\u0022:"), "twice"),
        (whole.replace(b'"message":"hi"', b'"message":1e999'), "found 1e999"),
        (whole.replace(b'"message":"hi"', b'"message":NaN'), "found nan"),
        (b"[" * 100_000, "while decoding a json array"),  # too deep, in the words of each Python
        ({**document(), "results": document()["results"] * 2}, "each case once"),
    ):
        assert text in refused(content).lower()


@pytest.mark.parametrize(
    ("name", "kind"), [("schema.json", Run), ("comparison.schema.json", Comparison)]
)
def test_the_schemas_in_results_are_those_of_the_types(
    name: str, kind: type[Run | Comparison]
) -> None:
    stored = (ROOT / "results" / name).read_text("utf-8")
    assert stored == files.schema(kind), "make it again: observatory reference"
