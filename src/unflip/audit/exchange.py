"""Suspects as tasks for Label Studio and records for Argilla, and what the reviewers answered.

::

    audit/label_studio.json    tasks with the suggestion as a prediction: Import in a project of Label Studio
    audit/label_studio.xml     its labeling interface: Settings, Labeling Interface, Code
    audit/argilla/             argilla.Dataset.from_disk("audit/argilla", name="audit")

The answers come back as Label Studio's exports JSON and JSON-MIN, and as Argilla's ``dataset.records.to_json(path)``.
"""

import base64
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from unflip._input import read_json

LABEL, ROW, IMAGE = "label", "row", "image"  # the question, and the fields that it is asked about
LEAST_VISIBLE = 3  # labels that Argilla shows at once; it takes no smaller number


class Task(NamedTuple):
    """A suspect as another tool shows it: a text or an image."""

    name: str
    given: str
    suggested: str
    probability: float  # that the given label is wrong
    text: str = ""
    image: bytes | None = None  # PNG


def task_text(columns: Sequence[str], cells: Sequence[str]) -> str:
    """Return the cells of a row as one text; a single column is its own text."""
    if len(columns) == 1:
        return cells[0]
    return "\n".join(f"{name}: {cell}" for name, cell in zip(columns, cells, strict=True) if cell)


def label_studio_tasks(tasks: Sequence[Task], made_with: str) -> list[dict[str, Any]]:
    """Return tasks in Label Studio's basic JSON format; each has its suggestion as a prediction."""
    found = []
    for number, task in enumerate(tasks):
        shown = {ROW: task.text or task.name} if task.image is None else {IMAGE: _uri(task.image)}
        choice = {
            "id": f"suspect{number}",
            "from_name": LABEL,
            "to_name": ROW if task.image is None else IMAGE,
            "type": "choices",
            "value": {"choices": [task.suggested]},
        }
        data = {"name": task.name, "given": task.given, "suggested": task.suggested}
        data |= {"probability_wrong": f"{task.probability:.6f}", **shown}
        prediction = {"model_version": made_with, "score": round(task.probability, 6), "result": [choice]}
        found.append({"data": data, "predictions": [prediction]})
    return found


def label_studio_config(classes: Sequence[str], pictures: bool) -> str:
    """Return the labeling interface for :func:`label_studio_tasks`."""
    shown = f'<Image name="{IMAGE}" value="${IMAGE}"/>' if pictures else f'<Text name="{ROW}" value="${ROW}"/>'
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in classes)
    return (
        "<View>\n"
        '  <Header value="$name"/>\n'
        f"  {shown}\n"
        '  <Header value="Given: $given. Suggested: $suggested. Probability that the given label is wrong: '
        '$probability_wrong" size="5"/>\n'
        f'  <Choices name="{LABEL}" toName="{IMAGE if pictures else ROW}" choice="single" required="true">\n'
        f"{choices}\n"
        "  </Choices>\n"
        "</View>\n"
    )


def argilla_records(tasks: Sequence[Task], made_with: str) -> list[dict[str, Any]]:
    """Return the records of an Argilla dataset; each has its suggestion."""
    return [
        {
            "id": task.name,
            "fields": {ROW: task.text or task.name} if task.image is None else {IMAGE: _uri(task.image)},
            "metadata": {"given": task.given, "probability_wrong": round(task.probability, 6)},
            "suggestions": {
                LABEL: {"value": task.suggested, "score": round(task.probability, 6), "agent": made_with},
            },
            "responses": {},
            "vectors": {},
            "status": "pending",
        }
        for task in tasks
    ]


def argilla_settings(classes: Sequence[str], pictures: bool) -> dict[str, Any]:
    """Return the settings of an Argilla dataset with :func:`argilla_records`."""
    shown = {"type": "image"} if pictures else {"type": "text", "use_markdown": False}
    question = {
        "name": LABEL,
        "title": "Which label is right?",
        "required": True,
        "settings": {
            "type": "label_selection",
            "options": [{"value": name, "text": name, "description": None} for name in classes],
            "visible_options": len(classes) if len(classes) >= LEAST_VISIBLE else None,
        },
    }
    metadata = [
        {"name": "given", "title": "Given label", "settings": {"type": "terms"}},
        {"name": "probability_wrong", "title": "P(given label is wrong)", "settings": {"type": "float"}},
    ]
    return {
        "guidelines": "The given label of each record is probably wrong. Choose the right one.",
        "questions": [question],
        "fields": [{"name": IMAGE if pictures else ROW, "required": True, "settings": shown}],
        "vectors": [],
        "metadata": metadata,
        "allow_extra_metadata": False,
        "distribution": {"strategy": "overlap", "min_submitted": 1},
        "mapping": None,
    }


def write_label_studio(folder: Path, tasks: Sequence[Task], classes: Sequence[str], made_with: str) -> None:
    """Write ``label_studio.json`` and ``label_studio.xml``."""
    pictures = any(task.image for task in tasks)
    _write(folder / "label_studio.json", label_studio_tasks(tasks, made_with))
    (folder / "label_studio.xml").write_text(label_studio_config(classes, pictures), encoding="utf-8")


def write_argilla(folder: Path, tasks: Sequence[Task], classes: Sequence[str], made_with: str) -> None:
    """Write the folder ``argilla`` as ``argilla.Dataset.to_disk`` does."""
    place = folder / "argilla"
    (place / ".argilla").mkdir(parents=True)
    _write(place / "records.json", argilla_records(tasks, made_with))
    _write(place / ".argilla" / "settings.json", argilla_settings(classes, any(task.image for task in tasks)))
    _write(place / ".argilla" / "dataset.json", {"name": "unflip-audit", "status": "draft"})


WRITERS = {"label-studio": write_label_studio, "argilla": write_argilla}


def read_answers(path: Path) -> list[tuple[str, str | None, str, str]]:
    """Return (name, given, answer, probability wrong) of each task that reviewers agreed on.

    ``path`` is JSON or JSON-MIN of Label Studio, or the records of Argilla. If several reviewers answered, the most
    frequent answer counts; a tie, or a task without an answer, is left out.
    """
    try:
        document = read_json(path)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not (isinstance(document, list) and all(isinstance(item, dict) for item in document)):
        raise ValueError(f"{path} must be a list of tasks that Label Studio or Argilla exported")
    asked: dict[str, tuple[str | None, list[str], str]] = {}
    for item in document:
        if "responses" in item and "fields" in item:
            data, answers = {"name": item.get("id"), **(item.get("metadata") or {})}, _argilla_answers(item)
        elif isinstance(item.get("data"), dict):
            data, answers = item["data"], _label_studio_answers(item)
        else:  # JSON-MIN: one item per annotation
            data, answers = item, _choices(item.get(LABEL))
        if data.get("name") is None:
            raise ValueError(f"{path} has a task without a name; it is not one of those that unflip audit exported")
        name, given, probability = str(data["name"]), data.get("given"), data.get("probability_wrong", "")
        known = asked.setdefault(name, (None if given is None else str(given), [], str(probability)))
        known[1].extend(answers)
    found = []
    for name, (given, answers, probability) in asked.items():
        ranked = Counter(answers).most_common(2)
        if ranked and (len(ranked) == 1 or ranked[0][1] > ranked[1][1]):
            found.append((name, given, ranked[0][0], probability))
    return found


def _argilla_answers(record: dict[str, Any]) -> list[str]:
    answers = (record.get("responses") or {}).get(LABEL, [])
    kept = [one for one in answers if one.get("status") not in ("draft", "discarded")]  # not every export has it
    return [str(one["value"]) for one in kept if one.get("value") is not None]


def _label_studio_answers(task: dict[str, Any]) -> list[str]:
    kept = [one for one in task.get("annotations") or [] if not one.get("was_cancelled")]
    results = [result for one in kept for result in one.get("result") or [] if result.get("from_name") == LABEL]
    return [choice for result in results for choice in _choices(result.get("value"))]


def _choices(value: Any) -> list[str]:
    """Return the answers in a value: one text, or the lists that Label Studio makes of several."""
    if isinstance(value, dict):
        value = value.get("choices", [])
    if isinstance(value, list):
        return [choice for item in value for choice in _choices(item)]
    return [] if value is None else [str(value)]


def _uri(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
