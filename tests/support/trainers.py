"""Trainers of other libraries, each with a small model, for two epochs of three batches."""

from __future__ import annotations

import importlib
from typing import Any

EPOCHS = 2
BATCHES = 3


def fit_with_lightning(lightning: Any, *, validates: bool, **arguments: Any) -> None:
    """Trains by PyTorch Lightning; the arguments are those of its trainer."""
    torch: Any = importlib.import_module("torch")

    class Model(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, _index: int) -> Any:
            return self.layer(batch).sum()

        def validation_step(self, batch: Any, _index: int) -> None:
            self.layer(batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    loader = torch.utils.data.DataLoader(torch.ones(2 * BATCHES, 4), batch_size=2)
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=EPOCHS,
        num_sanity_val_steps=0,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **arguments,
    )
    trainer.fit(Model(), loader, loader if validates else None)


def train_with_transformers(transformers: Any, callback: Any) -> None:
    """Trains by the trainer of Hugging Face."""
    torch: Any = importlib.import_module("torch")

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x: Any) -> dict[str, Any]:
            return {"loss": self.layer(x).sum()}

    arguments = transformers.TrainingArguments(
        "output",
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=2,
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    data = [{"x": torch.ones(4)}] * (2 * BATCHES)
    transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=[callback]).train()
