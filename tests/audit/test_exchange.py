"""Suspects for Label Studio and Argilla, in their import formats, and back from their exports."""

import json
import xml.etree.ElementTree as ET

import pytest

from unflip.audit.exchange import (
    Task,
    argilla_records,
    argilla_settings,
    label_studio_config,
    label_studio_tasks,
    read_answers,
    task_text,
    write_argilla,
    write_label_studio,
)

CLASSES = ['cat & "dog"', "<eel>", "cow"]
TASKS = [Task("7", CLASSES[0], CLASSES[1], 0.9, "a: 1"), Task("a/b.png", CLASSES[1], CLASSES[2], 0.75)]


def exported(tasks, answers):
    """Label Studio's export JSON of tasks, one list of answers for each."""
    return [
        {
            "id": k,
            "data": task["data"],
            "annotations": [
                {
                    "id": 10 * k + j,
                    "was_cancelled": answer is None,
                    "result": [] if answer is None else [
                        {"from_name": "label", "to_name": "row", "type": "choices", "value": {"choices": [answer]}}
                    ],
                }
                for j, answer in enumerate(given)
            ],
        }
        for k, (task, given) in enumerate(zip(tasks, answers, strict=True))
    ]  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    def save(document):
        (tmp_path / "export.json").write_text(json.dumps(document), encoding="utf-8")
        return tmp_path / "export.json"

    return save


class TestLabelStudio:
    def test_tasks_have_what_the_format_asks_for(self):
        """https://labelstud.io/guide/predictions: data, and predictions with result, score and model_version."""
        tasks = label_studio_tasks(TASKS, "unflip 1")
        config = ET.fromstring(label_studio_config(CLASSES, pictures=False))
        control, shown = config.find("Choices"), config.find("Text")
        assert [choice.get("value") for choice in control] == CLASSES
        assert control.get("toName") == shown.get("name")
        for task, suspect in zip(tasks, TASKS, strict=True):
            assert shown.get("value").removeprefix("$") in task["data"]
            (prediction,) = task["predictions"]
            assert prediction["score"] == suspect.probability
            (result,) = prediction["result"]
            assert (result["from_name"], result["to_name"]) == (control.get("name"), shown.get("name"))
            assert result["type"] == "choices"
            assert result["value"] == {"choices": [suspect.suggested]}
        for header in config.findall("Header"):
            for word in header.get("value").split():
                if word.startswith("$"):
                    assert word.strip("$.") in tasks[0]["data"]

    def test_images_are_inside(self):
        (task,) = label_studio_tasks([TASKS[0]._replace(image=b"\x89PNG")], "unflip 1")
        assert task["data"]["image"].startswith("data:image/png;base64,")
        assert ET.fromstring(label_studio_config(CLASSES, pictures=True)).find("Image").get("value") == "$image"
        assert task["predictions"][0]["result"][0]["to_name"] == "image"

    def test_answers_come_back(self, saved):
        tasks = label_studio_tasks(TASKS, "unflip 1")
        found = read_answers(saved(exported(tasks, [["cow"], [CLASSES[1]]])))
        assert found == [("7", CLASSES[0], "cow", "0.900000"), ("a/b.png", CLASSES[1], CLASSES[1], "0.750000")]

    def test_several_reviewers_and_none(self, saved):
        tasks = label_studio_tasks([TASKS[0]] + [Task(str(k), "a", "b", 0.5) for k in range(3)], "unflip 1")
        answers = [["cow", CLASSES[1], "cow"], ["a", "b"], [], [None]]  # most say cow; a tie; nobody; skipped
        assert [row[:3] for row in read_answers(saved(exported(tasks, answers)))] == [("7", CLASSES[0], "cow")]

    def test_json_min(self, saved):
        flat = [{**task["data"], "id": k, "label": answer, "annotation_id": k} for k, (task, answer) in enumerate(
            zip(label_studio_tasks(TASKS, "unflip 1"), ("cow", {"choices": ["cow"]}), strict=True))]  # fmt: skip
        assert [row[2] for row in read_answers(saved(flat))] == ["cow", "cow"]


class TestArgilla:
    """The models of argilla._models, version 2: what they require, by hand."""

    def test_settings(self):
        settings = argilla_settings(CLASSES, pictures=False)
        (question,) = settings["questions"]
        assert question["settings"]["type"] == "label_selection"
        assert [option["value"] for option in question["settings"]["options"]] == CLASSES
        assert question["settings"]["visible_options"] == 3
        assert argilla_settings(["a", "b"], False)["questions"][0]["settings"]["visible_options"] is None
        (field,) = settings["fields"]
        assert field["settings"]["type"] == "text"
        assert argilla_settings(CLASSES, pictures=True)["fields"][0]["settings"] == {"type": "image"}
        assert {one["settings"]["type"] for one in settings["metadata"]} == {"terms", "float"}
        for one in (question, field, *settings["metadata"]):
            assert one["name"].replace("_", "").isalnum()
            assert one["name"].islower()

    def test_records_fit_the_settings(self):
        settings = argilla_settings(CLASSES, pictures=False)
        for record in argilla_records(TASKS, "unflip 1"):
            assert set(record["fields"]) == {one["name"] for one in settings["fields"]}
            assert set(record["metadata"]) == {one["name"] for one in settings["metadata"]}
            (name, suggestion), = record["suggestions"].items()  # fmt: skip
            assert name == settings["questions"][0]["name"]
            assert set(suggestion) == {"value", "score", "agent"}
            assert suggestion["value"] in CLASSES

    def test_answers_come_back(self, saved):
        records = argilla_records(TASKS, "unflip 1")
        records[0]["responses"] = {"label": [{"value": "cow", "user_id": "u"}]}
        assert read_answers(saved(records)) == [("7", CLASSES[0], "cow", "0.9")]

    def test_argilla_itself_reads_them(self, tmp_path):
        rg = pytest.importorskip("argilla", reason="argilla is not installed")
        write_argilla(tmp_path, TASKS, CLASSES, "unflip 1")
        settings = rg.Settings.from_json(tmp_path / "argilla" / ".argilla" / "settings.json")
        assert settings.questions["label"].labels == CLASSES
        assert [rg.Record.from_dict(one).id for one in argilla_records(TASKS, "u")] == ["7", "a/b.png"]


def test_files_are_written(tmp_path):
    write_label_studio(tmp_path, TASKS, CLASSES, "unflip 1")
    write_argilla(tmp_path, TASKS, CLASSES, "unflip 1")
    assert len(json.loads((tmp_path / "label_studio.json").read_text(encoding="utf-8"))) == 2
    assert ET.fromstring((tmp_path / "label_studio.xml").read_text(encoding="utf-8")).tag == "View"
    assert len(json.loads((tmp_path / "argilla" / "records.json").read_text(encoding="utf-8"))) == 2
    assert json.loads((tmp_path / "argilla" / ".argilla" / "dataset.json").read_text())["name"] == "unflip-audit"


def test_answers_that_were_thrown_away_do_not_count(saved):
    def record(name, status):
        answer = {"label": [{"value": "b", "user_id": "u", "status": status}]}
        return {"id": name, "fields": {"row": "x"}, "metadata": {"given": "a"}, "responses": answer}

    path = saved([record("1", "submitted"), record("2", "discarded"), record("3", "draft")])
    assert [name for name, *_ in read_answers(path)] == ["1"]


def test_text_of_a_row():
    assert task_text(["comment"], ["it works"]) == "it works"
    assert task_text(["a", "b", "c"], ["1", "", "x"]) == "a: 1\nc: x"


@pytest.mark.parametrize(
    ("document", "match"), [({}, "must be a list"), ([1], "must be a list"), ([{}], "without a name")]
)
def test_other_files_are_refused(saved, document, match):
    with pytest.raises(ValueError, match=match):
        read_answers(saved(document))
