"""Train on data of which 40 % of the labels are wrong, with scikit-learn's interface.

    python examples/quickstart.py

scikit-learn's digits stand in for your data. Their clean test labels are used only for the column "true"; for your own
data you have only the column "estimated".
"""

from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split

from unflip import MCLDCEClassifierCV, clean_accuracy, corrupt, pairflip, transition_error

X, y = load_digits(return_X_y=True)
T = pairflip(10, 0.4)  # 40 % of each digit is given the label of the next one
noisy = corrupt(y, T, random_state=0)
X_train, X_test, noisy_train, noisy_test, _, y_test = train_test_split(
    X, noisy, y, test_size=0.4, stratify=y, random_state=0
)

plain = RidgeClassifier().fit(X_train, noisy_train)
model = MCLDCEClassifierCV(random_state=0).fit(X_train, noisy_train)  # T is estimated from the noisy labels
print(f"{(noisy != y).mean():.1%} of the labels are wrong; error of the estimated T: ", end="")
print(f"{transition_error(model.transition_, T):.3f} of 2")

print("classifier  true   estimated from noisy labels")
for name, fitted in {"ridge": plain, "unflip": model}.items():
    score = clean_accuracy(noisy_test, fitted.predict(X_test), model.transition_)
    print(f"{name:<10}  {fitted.score(X_test, y_test):.3f}  {score.estimate:.3f} [{score.low:.3f}, {score.high:.3f}]")
