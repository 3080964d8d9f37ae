"""Notebooks: the kept ones execute, one is what the command writes, and hostile text in a run stays text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import correlator
from correlator.cli.app import main
from correlator.notebook.document import markdown

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("altair")
pytest.importorskip("duckdb")

ROOT = Path(__file__).resolve().parent.parent
KEPT = sorted((ROOT / "sample_runs" / "notebooks").glob("*.ipynb"))
STORY = ROOT / "sample_runs" / "notebooks" / "post_mortem.ipynb"
STORY_RUN = "sample_runs/sim-dataloader-stall-merged-5s-319/run"

pytestmark = pytest.mark.filterwarnings("ignore")  # of jupyter's own event loop and sockets


def execute(path: Path, folder: Path) -> Any:
    """The notebook after all cells ran in `folder`; a cell that raises fails the test."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def outputs(notebook: Any) -> str:
    """All outputs as one text."""
    return json.dumps([cell.get("outputs", []) for cell in notebook.cells])


@pytest.fixture(autouse=True)
def package_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel imports this checkout, also where it is not installed."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")


@pytest.mark.slow
@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_the_kept_notebooks_execute(path: Path) -> None:
    """From the folder they lie in, with relative paths, each chart and card among the outputs."""
    done = outputs(execute(path, path.parent))
    assert "<svg" in done
    assert "cdn." not in done, "nobody is asked for anything"
    assert "IDENTIFIED" in done


def test_two_notebooks_are_kept_without_outputs() -> None:
    """Outputs would change with every version of every library."""
    assert len(KEPT) == 2
    for path in KEPT:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not [cell for cell in cells if cell.get("outputs")]


def test_the_kept_story_is_what_the_command_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """`correlator notebook` over the demo gives the kept file, but for the path; --snapshot-update writes it anew."""
    monkeypatch.chdir(ROOT)
    target = STORY if request.config.getoption("update_snapshots") else tmp_path / STORY.name
    with pytest.raises(SystemExit) as exit_:
        main(["notebook", STORY_RUN, "-o", str(target), "--force", "--quiet"])
    assert not exit_.value.code
    written, kept = (json.loads(path.read_text(encoding="utf-8")) for path in (target, STORY))
    assert sources(written) == sources(kept)


def sources(notebook: dict[str, Any]) -> list[str]:
    """The cells, without the path of the run."""
    return ["".join(cell["source"]) for cell in notebook["cells"] if "open_run(" not in "".join(cell["source"])]


HOSTILE = "rank0: </script><script>alert(1)</script> ]]> $x$ [a](javascript:b) ![c](d) `e` \x1b]8;;http://f\x07g\x1b[31m \u202eh | # i"


@pytest.mark.slow
def test_a_hostile_run_makes_a_harmless_notebook(tmp_path: Path) -> None:
    """Nothing that a log says is markup, code or a command to the terminal; the notebook executes all the same."""
    folder = tmp_path / "'; import os #"
    folder.mkdir()
    lines = [
        "2026-01-01 00:00:01,000 INFO step 1 loss 1.0",
        "2026-01-01 00:00:02,000 ERROR it broke",
        "Traceback (most recent call last):",
        '  File "t.py", line 1, in f',
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. {HOSTILE}",
    ]
    (folder / "rank_1.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(SystemExit) as exit_:
        main(["notebook", str(folder), "-o", str(tmp_path / "n.ipynb"), "--quiet"])
    assert not exit_.value.code
    raw = (tmp_path / "n.ipynb").read_text(encoding="utf-8")
    assert "<script" not in raw
    assert "\\u001b" not in raw
    assert "\u202e" not in raw
    code = ["".join(cell["source"]) for cell in json.loads(raw)["cells"] if cell["cell_type"] == "code"]
    assert not [source for source in code if "alert" in source]
    done = outputs(execute(tmp_path / "n.ipynb", tmp_path))
    assert "alert(1)" in done
    assert "<script>alert" not in done
    assert "</script><script" not in done


def test_markdown_shows_text_as_it_is() -> None:
    """Everything that Markdown, HTML or MathJax reads is escaped, and no link is made."""
    assert markdown("a*b*_c_`d`<e>&$f$ [g](h) http://i") == (
        r"a\*b\*\_c\_\`d\`&lt;e&gt;&amp;\$f\$ \[g\]\(h\) http&#58;//i"
    )


def test_standard_input_cannot_be_opened_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused before any work."""
    with pytest.raises(SystemExit) as exit_:
        main(["notebook", "-", "-o", str(tmp_path / "n.ipynb")])
    assert exit_.value.code == 2
    assert "standard input" in capsys.readouterr().err


def test_a_healthy_run_has_a_short_story(tmp_path: Path) -> None:
    """No culprit, no lanes of a failure; still a notebook."""
    from correlator.notebook.document import write_notebook

    target = ROOT / "sample_runs" / "real-healthy-noisy-002" / "run"
    write_notebook(correlator.open_run(target, workers=1), [target], tmp_path / "h.ipynb")
    text = (tmp_path / "h.ipynb").read_text(encoding="utf-8")
    assert "NO FAILURE" in text
    assert "timeline_chart" not in text
    assert "event_density_chart" in text
