"""Your own PyTorch training loop with a DataLoader, with the loss replaced.

    python examples/pytorch_loop.py

Only the line that makes the loss differs between the two networks. The last lines hand the same DataLoader to
NoisyLabelClassifier, which brings its own loop. Needs PyTorch: pip install 'unflip[deep]'
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.utils.data import DataLoader, TensorDataset

from unflip import NoisyLabelClassifier, VolMin, corrupt, pairflip
from unflip.deep import MCLDCELoss

X, y = load_digits(return_X_y=True)
X = (X / 16).astype("float32")
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
noisy = corrupt(y_train, pairflip(10, 0.4), random_state=0)
T = VolMin(random_state=0).fit(X_train, noisy).transition_

torch.set_num_threads(1)  # the digits are too small for more
data = TensorDataset(torch.from_numpy(X_train), torch.from_numpy(noisy))
loader = DataLoader(data, batch_size=128, shuffle=True)


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.LeakyReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(128, 10)
    )


def train(loss: torch.nn.Module) -> float:
    """Return the accuracy on clean test labels after training with a loss of logits and noisy labels."""
    torch.manual_seed(0)
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    for _ in range(40):
        for x, labels in loader:
            optimizer.zero_grad()
            loss(net(x), labels).backward()
            optimizer.step()
    with torch.no_grad():
        predicted = net.eval()(torch.from_numpy(X_test)).argmax(dim=1)
    return float((predicted.numpy() == y_test).mean())


print(f"cross-entropy         {train(torch.nn.CrossEntropyLoss()):.3f}")
print(f"MCLDCELoss            {train(MCLDCELoss(T)):.3f}")

model = NoisyLabelClassifier(network=network, transition=T, epochs=40, lr=3e-3, progress=False, random_state=0)
print(f"NoisyLabelClassifier  {model.fit(loader).score(X_test, y_test):.3f}")
