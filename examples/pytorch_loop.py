"""Your own PyTorch training loop, with the loss replaced.

    python examples/pytorch_loop.py

Only the line that makes the loss differs between the two networks. Needs PyTorch: pip install 'unflip[deep]'
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from unflip import VolMin, corrupt, pairflip
from unflip.deep import MCLDCELoss

X, y = load_digits(return_X_y=True)
X = (X / 16).astype("float32")
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
noisy = corrupt(y_train, pairflip(10, 0.4), random_state=0)
T = VolMin(random_state=0).fit(X_train, noisy).transition_

torch.set_num_threads(1)  # the digits are too small for more
x, t, x_test = torch.from_numpy(X_train), torch.from_numpy(noisy), torch.from_numpy(X_test)


def train(loss: torch.nn.Module) -> float:
    """Return the accuracy on clean test labels after training with a loss of logits and noisy labels."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.LeakyReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(128, 10)
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    for _ in range(40):
        for batch in torch.randperm(len(x)).split(128):
            optimizer.zero_grad()
            loss(net(x[batch]), t[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        predicted = net.eval()(x_test).argmax(dim=1)
    return float((predicted.numpy() == y_test).mean())


print(f"cross-entropy  {train(torch.nn.CrossEntropyLoss()):.3f}")
print(f"MCLDCELoss     {train(MCLDCELoss(T)):.3f}")
