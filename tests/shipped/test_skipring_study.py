"""The study of how skip rings heal, on a small grid."""

from __future__ import annotations

from pathlib import Path

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.notebooks import skipring_study as study

SMALL = (
    "runs.seeds=[0, 1]",
    "runs.grid={protocol.start: [arbitrary, tries], overlay.nodes.count: [2, 6]}",
    "time.rounds=400",
)


def test_the_study_measures_and_draws_every_start(sail: Session, tmp_path: Path) -> None:
    result = rt.run(study.SCENARIO, store=tmp_path / "store", overrides=SMALL, spark=sail.spark)
    assert result.verdict == "valid"
    found = study.measures(result)
    told = study.summary(found).set_index(["start", "n"])
    assert set(told.index) == {("arbitrary", 2), ("arbitrary", 6), ("tries", 2), ("tries", 6)}
    assert (told.undecided_share == 0).all()
    assert told["most"]["tries", 6] == 0 < told["median"]["arbitrary", 6]
    last = found["progress"].sort_values("round").groupby("run_id").last()
    assert (last.wrong_share == 0).all()
    assert (last.recorded_share == 1).all()
    written = study.write(study.pictures(found), tmp_path / "pictures")
    assert {path.stem for path in written} == {"healing", "wrong_labels", "supervisor"}
    assert "GetConfiguration" in (tmp_path / "pictures" / "supervisor.svg").read_text("utf-8")
    assert "arbitrary" in (tmp_path / "pictures" / "healing.svg").read_text("utf-8")
