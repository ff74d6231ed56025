"""The cost of one training step: python benchmarks/deep_step.py --out benchmarks/results/deep_step.md"""

import platform
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time as clock  # one thread; the time of other processes is not counted

import numpy as np
import torch
import torch.nn.functional as F
from _shared import Report, arguments, images
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from unflip.deep import CNN6, make_method, make_network
from unflip.deep.adam import Adam
from unflip.deep.trainer import Trainer
from unflip.noise import corrupt, symmetric

BATCH, STEPS, ROUNDS, TRIALS = 128, 100, 30, 5
BLACK = 78  # pixels
LOADER_STEPS, LOADER_EVERY = 20, 3
CNN_BATCH, CNN_ROUNDS = 32, 5
T = symmetric(10, 0.2)
Batches = Callable[[], Iterator[tuple[Tensor, Tensor]]]


class ImageDataset(Dataset[tuple[Tensor, int, int]]):
    """One image at a time, as the reference repositories read MNIST: bytes, PIL image, tensor in [0, 1]."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        from PIL import Image

        self.x, self.y, self.to_image = x.reshape(-1, 28, 28), y, Image.fromarray

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[Tensor, int, int]:
        image = np.array(self.to_image(self.x[i]))
        return torch.from_numpy(image).unsqueeze(0).to(torch.float32).div(255), int(self.y[i]), i


def training_data(options: object) -> tuple[np.ndarray, np.ndarray, str]:
    try:
        x, y, *_ = images(options, "fashion-mnist")
        x, name = np.rint(x * 255).astype(np.uint8), "Fashion-MNIST"
    except SystemExit:
        rng = np.random.default_rng(0)
        x, y = rng.integers(256, size=(60_000, 784), dtype=np.uint8), rng.integers(10, size=60_000)
        name = "random bytes"
    return x, corrupt(y, T, random_state=0), name


def fade(layer: nn.Linear) -> None:
    """Leave what weight decay leaves after thousands of steps of the weights of pixels that are always black."""
    with torch.no_grad():
        layer.weight[:, :BLACK] = 1e-40


def products(x: np.ndarray) -> Callable[[], float]:
    """Return the seconds of the five matrix products of a step, on shuffled batches that are cached as in a step."""
    data = torch.from_numpy(x)
    W1, W2 = torch.randn(256, 784) / 28, torch.randn(10, 256) / 16
    H, dZ1, dZ2 = torch.randn(BATCH, 256), torch.randn(BATCH, 256), torch.randn(BATCH, 10)

    def run() -> float:
        total = 0.0
        for rows in torch.randperm(len(data))[: STEPS * BATCH].split(BATCH):
            X = data.index_select(0, rows).to(torch.float32).mul_(1 / 255)
            start = clock()
            X @ W1.T  # the hidden layer
            H @ W2.T  # the logits
            dZ2.T @ H  # the gradient of W2
            dZ2 @ W2  # of the hidden layer
            dZ1.T @ X  # of W1
            total += clock() - start
        return total / STEPS

    return run


def ours(
    x: np.ndarray,
    y: np.ndarray,
    name: str,
    ema: float | None = None,
    optimizer: Callable[..., torch.optim.Optimizer] | None = None,
    torch_dropout: bool = False,
    augment: str | None = None,
    weight_decay: float = 0.0,
    **options: float,
) -> Callable[[], float]:
    settings = {"forget_rate": 0.2} if name in ("coteaching", "jocor") else {}
    method = make_method(name, make_network("mlp", 784, 10, **options), 10, T, **settings)
    if torch_dropout:
        method.networks[0][3] = nn.Dropout(options["dropout"])
    if weight_decay:
        fade(method.networks[0][1])
    settings = {"ema": ema, "optimizer": optimizer, "augment": augment, "weight_decay": weight_decay}
    trainer = Trainer(method, epochs=1, steps_per_epoch=STEPS, **settings)
    data, labels = torch.from_numpy(x), torch.from_numpy(y)
    if augment is not None:
        data = data.view(-1, 1, 28, 28)

    def run() -> float:
        start = clock()
        trainer.fit(data, labels)
        trainer.epochs += 1
        return (clock() - start) / STEPS

    return run


def loop(batches: Batches, steps: int, dropout: float = 0.0, weight_decay: float = 0.0) -> Callable[[], float]:
    """The loop one would write first: cross-entropy, fused Adam, the loss read at each step."""
    layers = [nn.Flatten(), nn.Linear(784, 256), nn.LeakyReLU(0.01), nn.Dropout(dropout), nn.Linear(256, 10)]
    network = nn.Sequential(*(layer for layer in layers if dropout or not isinstance(layer, nn.Dropout)))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True, weight_decay=weight_decay)
    if weight_decay:
        fade(network[1])

    def run() -> float:
        losses = []
        start = clock()
        for x, y in batches():
            loss = F.cross_entropy(network(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
        return (clock() - start) / steps

    return run


def batched(x: np.ndarray, y: np.ndarray) -> Callable[[], float]:
    """Several trials in one process, each with its own samples and weights: stacked products, one step of Adam."""
    data, labels = torch.from_numpy(x), torch.from_numpy(y)
    shapes = [(784, 256), (1, 256), (256, 10), (1, 10)]
    weights = [nn.Parameter(torch.randn(TRIALS, *shape) / shape[0] ** 0.5) for shape in shapes]
    optimizer = Adam(weights, lr=1e-3)

    def run() -> float:
        start = clock()
        orders = [torch.randperm(len(data))[: STEPS * BATCH] for _ in range(TRIALS)]
        for rows in torch.stack(orders, dim=1).view(STEPS, BATCH, TRIALS).unbind():
            rows = rows.T.reshape(-1)
            X = data.index_select(0, rows).to(torch.float32).mul_(1 / 255).view(TRIALS, BATCH, 784)
            H = F.leaky_relu(torch.baddbmm(weights[1], X, weights[0]), 0.01, inplace=True)
            Z = torch.baddbmm(weights[3], H, weights[2])
            (TRIALS * F.cross_entropy(Z.view(-1, 10), labels.index_select(0, rows))).backward()
            optimizer.step()
            for p in weights:
                p.grad = None
        return (clock() - start) / STEPS

    return run


def plain_batches(x: np.ndarray, y: np.ndarray) -> Batches:
    data, labels = torch.from_numpy(x), torch.from_numpy(y)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for rows in torch.randperm(len(data)).split(BATCH):
            yield data[rows].float() / 255, labels[rows]

    return batches


def loader_batches(x: np.ndarray, y: np.ndarray) -> Batches:
    loader = DataLoader(ImageDataset(x, y), BATCH, shuffle=True)
    return lambda: ((images, labels) for images, labels, _ in loader)


def convolutions(network: nn.Module, x: Tensor) -> Callable[[], float]:
    """Return the seconds of the convolutions alone, forward and both gradients, on their inputs in the network."""
    pairs: list[tuple[nn.Module, Tensor]] = []
    hooks = [
        layer.register_forward_hook(lambda layer, inputs, _: pairs.append((layer, inputs[0].detach().clone())))
        for layer in network.modules()
        if isinstance(layer, nn.Conv2d)
    ]
    network(x)
    for hook in hooks:
        hook.remove()
    for k, (_, inputs) in enumerate(pairs):
        inputs.requires_grad_(k > 0)  # the images need no gradient

    def run() -> float:
        total = 0.0
        for layer, inputs in pairs:
            start = clock()
            z = layer(inputs)
            total += clock() - start
            dz = torch.ones_like(z)
            wanted = [p for p in (inputs, *layer.parameters()) if p.requires_grad]
            start = clock()
            torch.autograd.grad(z, wanted, dz)
            total += clock() - start
        return total

    return run


def cnn_step(x: Tensor, y: Tensor, memory_format: torch.memory_format) -> Callable[[], float]:
    """A step of CNN6 on images in either memory layout."""
    network = CNN6(3, 10).to(memory_format=memory_format)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    x = x.contiguous(memory_format=memory_format)

    def run() -> float:
        start = clock()
        F.cross_entropy(network(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        return clock() - start

    return run


def cnn_ours(x: Tensor, y: Tensor, precision: str = "float32", width: float = 1.0) -> Callable[[], float]:
    method = make_method("ce", make_network("cnn6", (3, 32, 32), 10, width=width), 10)
    trainer = Trainer(method, epochs=1, batch_size=len(x), precision=precision)

    def run() -> float:
        start = clock()
        trainer.fit(x, y)
        trainer.epochs += 1
        return clock() - start

    return run


def measure(
    contenders: dict[str, Callable[[], float]], rounds: int, rarely: tuple[str, ...] = ()
) -> dict[str, list[float]]:
    """Run all in turn, so that other processes disturb them equally; the first round is a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for k in range(rounds + 1):
        for name, run in contenders.items():
            times[name].append(float("nan") if name in rarely and k % LOADER_EVERY else run())
    return {name: values[1:] for name, values in times.items()}


def ratio(times: list[float], base: list[float], factor: float = 1.0) -> str:
    """Return the median over the rounds, with the quartiles."""
    ratios = [t / (factor * b) for t, b in zip(times, base, strict=True) if t == t and b == b]
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def mlp_table(report: Report, x: np.ndarray, y: np.ndarray) -> None:
    black = x.copy()
    black[:, :BLACK] = 0
    base, loader = "its five matrix products alone", "per-image Dataset and DataLoader, fused Adam"
    contenders = {
        base: products(x),
        "unflip, ce": ours(x, y, "ce"),
        "unflip, ce, dropout 0.5": ours(x, y, "ce", dropout=0.5),
        "unflip, ce, torch's Adam": ours(x, y, "ce", optimizer=partial(torch.optim.Adam, fused=True)),
        "unflip, ce, dropout 0.5, torch's Dropout": ours(x, y, "ce", torch_dropout=True, dropout=0.5),
        "unflip, mcldce": ours(x, y, "mcldce"),
        "unflip, mcldce, dropout 0.5, EMA": ours(x, y, "mcldce", ema=0.999, dropout=0.5),
        "unflip, mcldce, dropout 0.5, EMA, weight decay, late": ours(
            black, y, "mcldce", ema=0.999, weight_decay=1e-4, dropout=0.5
        ),
        "unflip, mcldce, images shifted": ours(x, y, "mcldce", augment="shift"),
        "unflip, discounted-forward, dropout 0.5, EMA": ours(x, y, "discounted-forward", ema=0.999, dropout=0.5),
        "unflip, proper scores of power 0.5": ours(x, y, "proper"),
        "unflip, coteaching, two networks": ours(x, y, "coteaching"),
        "unflip, jocor, two networks": ours(x, y, "jocor"),
        "five trials of ce in one process": batched(x, y),
        "plain loop, fused Adam": loop(plain_batches(x, y), STEPS),
        "plain loop, fused Adam, dropout 0.5": loop(plain_batches(x, y), STEPS, dropout=0.5),
        "plain loop, fused Adam, dropout 0.5, weight decay, late": loop(plain_batches(black, y), STEPS, 0.5, 1e-4),
        loader: loop(loader_batches(x, y), LOADER_STEPS),
    }
    times = measure(contenders, ROUNDS, rarely=(loader,))
    rows = []
    for name, values in times.items():
        networks = 2 if "two networks" in name else TRIALS if "trials" in name else 1
        rows.append(
            [
                name,
                f"{1e3 * float(np.nanmin(values)):.2f}",
                ratio(values, times[base], networks),
                ratio(values, times[loader], networks),
            ]
        )
    report.table(["one step", "ms", "/ products", "/ DataLoader step"], rows)
    report.say(
        "- ms: processor time of the fastest round.\n"
        "- / products: the step divided by the five products `X W1`, `H W2`, `dW2`, `dH`, `dW1` of the same shapes on "
        "shuffled batches that are gathered and scaled outside the clock; twice the products for two networks, five "
        "times for five trials. The bound is 2.0, the goal 1.5. Median over the rounds, with its quartiles.\n"
        "- / DataLoader step: the step divided by the same step of a plain loop that is fed by a Dataset of single "
        "images (bytes, PIL, tensor) and a DataLoader; twice that step for two networks, five times for five trials. "
        "The bound is 0.33.\n- five trials in one process: the weights stacked, `torch.baddbmm` instead of five steps "
        "one after the other; its ms are those of all five.\n"
        "- torch's Adam, torch's Dropout: `torch.optim.Adam(fused=True)` in place of `unflip.deep.adam.Adam`, and "
        "`nn.Dropout` in place of `unflip.deep.networks.Dropout`, everything else the same.\n"
        "- weight decay, late: a tenth of the pixels is always black, and their weights have decayed to 1e-40, which "
        "some processors are slow with; the Trainer counts numbers below 1.2e-38 as zero.\n"
        "- plain loop: tensors in memory, `x[rows].float() / 255`, `zero_grad`, `backward`, `step` and `loss.item()`.\n"
    )


def cnn_table(report: Report) -> None:
    x, y = torch.rand(CNN_BATCH, 3, 32, 32), torch.randint(10, (CNN_BATCH,))
    base = "its six convolutions alone"
    contenders = {
        base: convolutions(CNN6(3, 10), x),
        "unflip, ce": cnn_ours(x, y),
        "unflip, ce, bfloat16": cnn_ours(x, y, "bfloat16"),
        "unflip, ce, an eighth of the width": cnn_ours(x, y, width=0.125),
        "unflip, ce, an eighth of the width, bfloat16": cnn_ours(x, y, "bfloat16", 0.125),
        "plain step": cnn_step(x, y, torch.contiguous_format),
        "plain step, weights channels last": cnn_step(x, y, torch.channels_last),
    }
    times = measure(contenders, CNN_ROUNDS)
    report.say(f"CNN6 (2.4 million weights), batches of {CNN_BATCH} images of 3 x 32 x 32, random.\n")
    report.table(
        ["one step", "images per second", "/ convolutions"],
        [[name, f"{CNN_BATCH / min(values):.1f}", ratio(values, times[base])] for name, values in times.items()],
    )
    report.say(
        "- / convolutions: the step divided by the forward pass, the gradients of the weights and those of the inputs "
        "of the six convolutions of full width on their own inputs.\n"
        '- bfloat16: `precision="bfloat16"`. What it gains depends on the processor; this one has matrix units.\n'
        "- channels last: the weights, too, are laid out as (height, width, channel), as CNN6 does with its images by "
        "itself."
    )


def main() -> None:
    options = arguments(__doc__)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    report = Report("The cost of one training step", "python benchmarks/deep_step.py", options)
    x, y, data = training_data(options)
    report.say(
        f"One thread, float32, torch {torch.__version__} on {platform.machine()}. The paper's MLP (784-256-10, leaky "
        f"ReLU), batches of {BATCH} of {data}; {ROUNDS} rounds of {STEPS} steps, in each of which every row takes its "
        "turn.\n"
    )
    mlp_table(report, x, y)
    cnn_table(report)
    report.close()


if __name__ == "__main__":
    main()
