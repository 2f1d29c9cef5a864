"""Words that prose and names avoid: in docstrings, comments, pages and identifiers, with the term to use instead."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("pipelines", "udfs", "roundtable")

# Phrase, as a regular expression over lower-case prose: the term to use instead.
PHRASES = {
    r"look(s|ed|ing)? for circles|circles? of objects|unreachable cycles": "collect garbage, reference cycles",
    r"\bwork(s|ed|ing)? out\b": "compute, evaluate",
    r"\bwhat [\w ]{0,40}?(leaves?|left)\b|\bleft behind\b|\bleaves? behind\b": "history rows, the remainder",
    r"\bma(ke|kes|de|king) (\w+ ){0,2}(rows|rounds|plans|tables|frames|columns) of\b": "compute, build, derive from",
    r"\b(is|are|was|were) (not |already )?there\b(?! (is|are))": "exists, is available, is ready",
    r"\bkinds? of (an? |the )?(values?|columns?|numbers?|fields?)\b": "type",
    r"\bplaces? (in|of) (an?|the|its|their) (lists?|tuples?|rows?|columns?|array)\b": "index, position",
    r"\b(by turns|falling)\b": "alternating, descending",
    r"\b(anew|meanwhile|by then|beforehand)\b": "again, concurrently, until round r, in advance",
    r"\b(so many|such an?|whoever|whatever|however many)\b": "n, this, each",
    r"\bh(as|ave|ad) \w+( \w+)? (look|start|build|play|work|write|find|make|take)\b": "X starts, builds, plays Y",
    r"\b(has|have|had) (it|them|this|that|the \w+) (done|played|built|made|written)\b": "X does Y",
    r"\bh(old|olds|olding|eld) ([\w`]+ ){0,3}for (failed|down|dead)\b": "suspect",
    r"\bc(ome|omes|ame|oming) back\b": "recover, return",
    r"\b(go|goes|going|gone|went) on\b": "resume, continue",
    r"\b(is|are|be|was) over\b(?! (the|an?|all|each|every|\d))": "end",
    r"\bthe day\b|\b(a|the) (quiet|fast|slow|busy) (day|machine|minute)\b": "say the load, or leave it out",
    r"\ba text\b|\btexts\b": "string, SQL, JSON document",
    r"\breturns? (what|who|which|whoever|where)\b": "Returns the <noun>",
    r"^(gives|tells)\b": "Returns",
    r"\b(as before|as it was|the same as of|one of those|the others do)\b": "name what it is compared with",
    r"(?<!`)\bis none\b|\bthere is none\b": "does not exist",
    r"\bin a young jvm\b|\bearned its time back\b|\bwants? to be\b": "the technical term",
}
# Words of a name: split at underscores and capitals.
NAME_WORDS = {"circles", "anew", "meanwhile", "beforehand", "whoever", "whatever", "falling"}
CLASS_WORDS = {"Given", "Held", "Made", "Kept", "Left", "Few", "Many", "Between", "Shown", "Own"}

# (file, phrase as found): why the words are right there.
ALLOWED: dict[tuple[str, str], str] = {}


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the line and the words of each docstring, and of the string below a constant."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.lineno, value.value


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yields each block of comment lines as one paragraph."""
    start, words, last = 0, [], -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            if line != last + 1 and words:
                yield start, " ".join(words)
                words = []
            start, last = (start if words else line), line
            words.append(token.string.lstrip("#: "))
    if words:
        yield start, " ".join(words)


def _page(page: str) -> Iterator[tuple[int, str]]:
    """Yields the paragraphs of a Markdown page outside of code blocks."""
    is_code, start, lines = False, 1, list[str]()
    for number, line in enumerate([*page.splitlines(), ""], 1):
        is_code ^= line.lstrip().startswith("```")
        if line.strip() and not is_code:
            start = start if lines else number
            lines.append(line.strip())
        elif lines:
            yield start, " ".join(lines)
            lines = []


@cache
def _paragraphs() -> list[tuple[str, int, str]]:
    """Returns (file, line, words in lower case without code spans) of all prose."""
    found = []
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text("utf-8")
            parts = [*_docstrings(ast.parse(source)), *_comments(source)]
            found += [(str(path.relative_to(ROOT)), line, words) for line, words in parts]
        for path in sorted((ROOT / folder).rglob("*.sql")):
            lines = enumerate(path.read_text("utf-8").splitlines(), 1)
            found += [(str(path.relative_to(ROOT)), n, line) for n, line in lines if line.lstrip().startswith("--")]
    for path in sorted(ROOT.rglob("*.md")):
        name = path.relative_to(ROOT)
        if not any(part.startswith(".") or part in ("build", "node_modules") for part in name.parts):
            found += [(str(name), line, words) for line, words in _page(path.read_text("utf-8"))]
    return [
        (name, line, " ".join(re.sub(r"``[^`]+``|`[^`]*`", "`", words).lower().split())) for name, line, words in found
    ]


@pytest.mark.parametrize("phrase", PHRASES)
def test_prose_has_none_of_the_phrases(phrase: str) -> None:
    hits = [
        f"{name}:{line}: {match[0]!r}: {PHRASES[phrase]}"
        for name, line, words in _paragraphs()
        for match in re.finditer(phrase, words)
        if (name, match[0]) not in ALLOWED
    ]
    assert hits == []


@cache
def _names() -> list[tuple[str, str, bool]]:
    """Returns (file, name, is a class) of each module, class and function of the product, and of each test."""
    found = []
    for folder in (*PRODUCT, "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            file = str(path.relative_to(ROOT))
            found.append((file, path.stem, False))
            found.extend(
                (file, node.name, isinstance(node, ast.ClassDef))
                for node in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            )
    return found


def test_names_have_none_of_the_words() -> None:
    hits = []
    for file, name, is_class in _names():
        words = set(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name))
        if (words & CLASS_WORDS if is_class else set()) | (words & NAME_WORDS):
            hits.append(f"{file}: {name}")
    assert hits == []


def _protocol(file: str) -> str:
    """Returns the protocol that a file belongs to, "" for what all protocols share."""
    parts = Path(file).with_suffix("").parts
    own = parts[1] if parts[0] == "udfs" else parts[2] if parts[:2] == ("pipelines", "protocols") else ""
    return own if own and (ROOT / "pipelines" / "protocols" / own).is_dir() else ""


def test_no_two_public_classes_share_a_name() -> None:
    """Two protocols may share a name, as their papers do."""
    files: dict[str, list[str]] = {}
    for file, name, is_class in _names():
        if is_class and not name.startswith("_") and not file.startswith("tests"):
            files.setdefault(name, []).append(file)
    shared = {name: where for name, where in files.items() if len(where) > 1}
    owners = {name: [_protocol(file) for file in where] for name, where in shared.items()}
    assert {name: shared[name] for name, who in owners.items() if "" in who or len(set(who)) < len(who)} == {}


def test_each_exception_is_needed() -> None:
    found = {(name, match[0]) for name, _, words in _paragraphs() for p in PHRASES for match in re.finditer(p, words)}
    assert {key for key in ALLOWED if key not in found} == set()
