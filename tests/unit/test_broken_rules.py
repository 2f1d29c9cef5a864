"""Rules that are broken on purpose: each change still fits the module that it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MUTATION = ROOT / "tests" / "mutation"
BROKEN: dict[str, list[dict[str, Any]]] = yaml.safe_load((MUTATION / "broken_rules.yaml").read_text("utf-8"))


@pytest.mark.parametrize("protocol", BROKEN)
def test_each_change_fits_its_module_once(protocol: str) -> None:
    for row in BROKEN[protocol]:
        text = (ROOT / row["module"]).read_text("utf-8")
        assert text.count(row["was"]) == 1, row
        compile(text.replace(row["was"], row["is"]), row["module"], "exec")
        assert (MUTATION / "hunted" / f"{row.get('scenario', protocol)}.yaml").exists()


@pytest.mark.parametrize("protocol", BROKEN)
def test_each_rule_is_in_the_readme(protocol: str) -> None:
    text = (ROOT / "pipelines" / "protocols" / protocol / "README.md").read_text("utf-8")
    assert {row["rule"] for row in BROKEN[protocol] if f"- **{row['rule']}** " not in text} == set()
