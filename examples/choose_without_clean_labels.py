"""Choose a model, and estimate its accuracy, when any label may be wrong.

    python examples/choose_without_clean_labels.py

Cross-validated accuracy on noisy labels rewards a model that predicts the noise. `clean_scorer(T)` estimates the
accuracy on clean labels instead, inside GridSearchCV; MCLDCEClassifierCV chooses by the corrected risk, from sums.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier

from unflip import MCLDCEClassifierCV, VolMin, clean_accuracy, clean_scorer, corrupt, symmetric

X, y = load_digits(return_X_y=True)
noisy = corrupt(y, symmetric(10, 0.5), random_state=0)
X_train, X_test, noisy_train, noisy_test, _, y_test = train_test_split(
    X, noisy, y, test_size=0.4, stratify=y, random_state=0
)
T = VolMin(random_state=0).fit(X_train, noisy_train).transition_

# Any scikit-learn classifier can be tuned this way: here the number of neighbors.
search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 3, 10, 30, 100]}, scoring=clean_scorer(T), cv=5)
search.fit(X_train, noisy_train)
print(" neighbors  clean accuracy, estimated from 5 folds of noisy labels")
for setting, mean in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{setting['n_neighbors']:>10}  {mean:.3f}")

model = MCLDCEClassifierCV(T, alphas=np.logspace(-4, 1, 6), random_state=0).fit(X_train, noisy_train)
print("classifier                estimated               true")
for name, fitted in {
    f"{search.best_params_['n_neighbors']} neighbors": search,
    f"alpha {model.alpha_:g}": model,
}.items():
    predicted = fitted.predict(X_test)
    score = clean_accuracy(noisy_test, predicted, T)
    interval = f"{score.estimate:.3f} [{score.low:.3f}, {score.high:.3f}]"
    print(f"{name:<24}  {interval:<22}  {(predicted == y_test).mean():.3f}")
