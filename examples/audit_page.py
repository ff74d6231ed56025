"""Find the wrong labels of a set of images, and write a page to browse them, tick corrections and export those.

    python examples/audit_page.py           # works in a temporary folder
    python examples/audit_page.py audit     # keeps audit/index.html: open it in a browser

Needs jinja2 and pillow: pip install 'unflip[data,report]'
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from unflip import corrupt, read_table, symmetric
from unflip.commands import audit_table, write_audit


def main(out: Path, data: Path) -> None:
    digits = load_digits()
    images, clean = (digits.images[:1000] * (255 / 16)).astype(np.uint8), digits.target[:1000]
    noisy = corrupt(clean, symmetric(10, 0.2), random_state=0)
    np.savez(data / "digits.npz", X=images, y=noisy)

    table = read_table(data / "digits.npz")
    errors = audit_table(table, random_state=0)
    write_audit(errors, table, out, title="Digits with symmetric noise")

    wrong = noisy != clean
    print(f"{wrong.sum()} labels are wrong; expected {errors.total:.0f}, suspected {len(errors.suspects)}")
    for i in errors.suspects[:3]:
        print(f"  sample {table.names[i]}: given {errors.given[i]}, suggested {errors.suggested[i]}, true {clean[i]}")
    print(f"{wrong[errors.suspects].mean():.1%} of the suspects are wrong; ", end="")
    print(f"accepting every suggestion leaves {(errors.suggested != clean).mean():.1%} wrong labels")
    print("wrote", ", ".join(sorted(path.name for path in out.iterdir())))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary, "audit"), Path(temporary))
