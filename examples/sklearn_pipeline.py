"""Your own scikit-learn pipeline with your own boosting model, trained through T.

    python examples/sklearn_pipeline.py

The pipeline stays as it is, and CorrectedClassifier goes around it. Any classifier that takes sample weights will do.
Needs pandas and LightGBM: pip install 'unflip[data]' lightgbm
"""

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from unflip import CorrectedClassifier, clean_accuracy, corrupt

KINDS = np.array(["commuter", "racer", "tourer"])
T = [[0.9, 0.1, 0.0], [0.0, 0.65, 0.35], [0.3, 0.0, 0.7]]  # how the shop assistants mislabel the bicycles

random = np.random.default_rng(0)
code = random.choice(3, size=3000, p=[0.5, 0.2, 0.3])
bicycles = pd.DataFrame(
    {
        "weight": np.array([14.0, 8.0, 13.0])[code] + random.normal(0, 1.5, 3000),
        "gears": np.array([7, 22, 24])[code] + random.integers(-3, 4, 3000),
        "handlebar": np.where(random.random(3000) < np.array([0.05, 0.95, 0.5])[code], "drop", "flat"),
        "rack": np.where(random.random(3000) < np.array([0.7, 0.02, 0.9])[code], "yes", "no"),
    }
)
clean = KINDS[code]
noisy = corrupt(clean, T, random_state=1)
train, test = train_test_split(np.arange(3000), test_size=0.4, stratify=noisy, random_state=0)

pipeline = make_pipeline(
    make_column_transformer((OneHotEncoder(), ["handlebar", "rack"]), remainder="passthrough"),
    LGBMClassifier(n_estimators=60, num_leaves=15, min_child_samples=20, n_jobs=1, verbose=-1),
)
corrected = CorrectedClassifier(pipeline, random_state=0).fit(bicycles.iloc[train], noisy[train])
plain = pipeline.fit(bicycles.iloc[train], noisy[train])

print("T, estimated from the noisy labels")
for name, row in zip(corrected.classes_, corrected.transition_, strict=True):
    print(f"  {name:<9}" + "".join(f"{p:6.2f}" for p in row))
for name, model in {"pipeline": plain, "corrected": corrected}.items():
    predicted = model.predict(bicycles.iloc[test])
    estimate = clean_accuracy(noisy[test], predicted, corrected.transition_).estimate
    print(f"{name:<10} accuracy on clean labels {(predicted == clean[test]).mean():.3f}, estimated {estimate:.3f}")
