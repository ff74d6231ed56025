"""Suspects to Label Studio, and the reviewers' answers back into the data.

    python examples/label_studio.py          # works in a temporary folder
    python examples/label_studio.py review   # keeps the files

Label Studio imports the tasks (Import) with the interface of label_studio.xml (Settings > Labeling Interface), and
exports what was decided (Export > JSON). The reviewer here is a function that knows the truth; its answers have the
same form.

Needs pandas: pip install 'unflip[data]'
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from unflip import corrupt, read_table
from unflip.commands import apply_corrections, audit_table, write_audit
from unflip.noise import asymmetric


def reviewed(tasks: list[dict], truth: dict[str, str]) -> list[dict]:
    """Return the tasks as Label Studio exports them: with an annotation that chooses a label."""
    for task in tasks:
        (choice,) = task["predictions"][0]["result"]
        answer = choice | {"value": {"choices": [truth[task["data"]["name"]]]}}
        task["annotations"] = [{"result": [answer], "was_cancelled": False}]
    return tasks


def main(folder: Path) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    clean = np.array(["malignant", "benign"])[y]
    noisy = corrupt(clean, asymmetric(2, {1: (0, 0.3)}), random_state=0)  # some malignant ones are called benign
    X.assign(diagnosis=noisy).to_csv(folder / "tumors.csv", index=False)

    table = read_table(folder / "tumors.csv", label="diagnosis")
    errors = audit_table(table, model="logistic", random_state=0)
    write_audit(errors, table, folder / "audit", title="tumors", exports=["label-studio"])
    tasks = json.loads((folder / "audit" / "label_studio.json").read_text(encoding="utf-8"))

    answers = reviewed(tasks, {str(name): label for name, label in enumerate(clean)})
    (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")

    apply_corrections(folder / "answers.json", folder / "tumors.csv", folder / "reviewed.csv", label="diagnosis")
    left = read_table(folder / "reviewed.csv", label="diagnosis").y
    print(f"tasks {len(tasks)}")
    print(f"wrong labels before {np.sum(noisy != clean)}, after {np.sum(left != clean)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
