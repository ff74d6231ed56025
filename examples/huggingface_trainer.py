"""Hugging Face's Trainer, with MCLDCELoss in place of the loss of the model.

    python examples/huggingface_trainer.py

Only compute_loss changes. The model here is a tiny BERT with random weights and the sentences are made up, so that
nothing is downloaded; use AutoModelForSequenceClassification.from_pretrained and your own tokens instead.
Needs PyTorch, transformers and accelerate: pip install 'unflip[deep]' transformers accelerate
"""

import tempfile

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfTransformer
from transformers import BertConfig, BertForSequenceClassification, PrinterCallback, Trainer, TrainingArguments
from transformers.utils import logging

from unflip import VolMin, corrupt, pairflip
from unflip.deep import MCLDCELoss

CLASSES, WORDS, LENGTH = 4, 200, 12
random = np.random.default_rng(0)


def sentences(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return made-up sentences as word numbers, shape (n, LENGTH), and their topics: each topic prefers some words."""
    topic = random.integers(CLASSES, size=n)
    common = random.integers(WORDS, size=(n, LENGTH))
    own = topic[:, None] + CLASSES * random.integers(WORDS // CLASSES, size=(n, LENGTH))
    return np.where(random.random((n, LENGTH)) < 0.35, own, common), topic


class NoisyLabelTrainer(Trainer):
    """A Trainer whose loss corrects for T."""

    def __init__(self, *arguments, loss: torch.nn.Module, **options):
        super().__init__(*arguments, **options)
        self.loss = loss

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = self.loss(outputs.logits, labels)
        return (loss, outputs) if return_outputs else loss


def train(loss: torch.nn.Module, folder: str) -> float:
    """Return the accuracy on clean labels after training with a loss of logits and noisy labels."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForSequenceClassification(
        BertConfig(vocab_size=WORDS, max_position_embeddings=LENGTH, num_labels=CLASSES, **sizes)
    )
    arguments = TrainingArguments(
        folder,
        num_train_epochs=6,
        per_device_train_batch_size=64,
        learning_rate=3e-3,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        use_cpu=True,
        dataloader_pin_memory=False,
        seed=0,
    )
    data = [{"input_ids": x, "labels": y} for x, y in zip(tokens, noisy.tolist(), strict=True)]
    trainer = NoisyLabelTrainer(model, arguments, train_dataset=data, loss=loss)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    with torch.no_grad():
        predicted = model.eval()(torch.tensor(tokens_test)).logits.argmax(dim=1)
    return float((predicted.numpy() == topics_test).mean())


logging.set_verbosity_error()
torch.set_num_threads(1)  # the model is too small for more
tokens, topics = sentences(2000)
tokens_test, topics_test = sentences(1000)
noisy = corrupt(topics, pairflip(CLASSES, 0.4), random_state=0)

counts = np.zeros((len(tokens), WORDS))
np.add.at(counts, (np.arange(len(tokens))[:, None], tokens), 1)
T = VolMin(random_state=0).fit(TfidfTransformer().fit_transform(counts), noisy).transition_  # from simple features

with tempfile.TemporaryDirectory() as folder:
    print(f"cross-entropy  {train(torch.nn.CrossEntropyLoss(), folder):.3f}")
    print(f"MCLDCELoss     {train(MCLDCELoss(T), folder):.3f}")
