"""Trains a small GPT on the characters of a text file. Plain PyTorch; nothing here is profiled.

Prints the loss as it goes and the steps per second at the end. The same seed gives the same losses
on the same machine.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, RandomSampler

CORPUS = Path(__file__).with_name("corpus.txt")

LAYERS = 6
HEADS = 4
WIDTH = 64
CONTEXT = 64


class Characters(Dataset[tuple[Tensor, Tensor]]):
    """Every window of `CONTEXT` characters in a text, with the characters that follow each."""

    def __init__(self, text: str) -> None:
        alphabet = sorted(set(text))
        codes_by_character = {character: index for index, character in enumerate(alphabet)}
        self.alphabet_size = len(alphabet)
        self.codes = torch.tensor([codes_by_character[character] for character in text])

    def __len__(self) -> int:
        return len(self.codes) - CONTEXT

    def __getitem__(self, start: int) -> tuple[Tensor, Tensor]:
        window = self.codes[start : start + CONTEXT + 1]
        return window[:-1], window[1:]


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    """Attention and MLP side by side on one normalised input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.mlp_in = nn.Linear(WIDTH, 4 * WIDTH)
        self.mlp_out = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        normal = self.norm(x)
        return x + self.attn(normal) + self.mlp_out(F.gelu(self.mlp_in(normal)))


class GPT(nn.Module):
    """A model that returns the logits of the next character at every position."""

    def __init__(self, alphabet_size: int) -> None:
        super().__init__()
        self.token = nn.Embedding(alphabet_size, WIDTH)
        self.position = nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, alphabet_size, bias=False)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.token(codes) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main() -> None:
    options = parse_options()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    device = choose_device(options.device)

    data = Characters(options.corpus.read_text(encoding="utf-8"))
    model = GPT(data.alphabet_size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batches = load(data, options)

    start_secs = time.perf_counter()
    for step, (codes, targets) in enumerate(batches, start=1):
        codes, targets = codes.to(device), targets.to(device)
        logits = model(codes)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 1 or step % options.report_every == 0:
            print(f"step {step:5d}  loss {loss.item():.4f}", flush=True)
    elapsed_secs = time.perf_counter() - start_secs
    print(f"{options.steps / elapsed_secs:.1f} steps/s")


def load(data: Characters, options: argparse.Namespace) -> DataLoader[tuple[Tensor, Tensor]]:
    """Returns batches of random windows, one per step, made by two worker processes."""
    sampler = RandomSampler(
        data,
        replacement=True,
        num_samples=options.steps * options.batch_size,
        generator=torch.Generator().manual_seed(options.seed),
    )
    return DataLoader(data, batch_size=options.batch_size, sampler=sampler, num_workers=2)


def choose_device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small GPT on the characters of a text.")
    parser.add_argument("--steps", type=positive, default=200)
    parser.add_argument("--batch-size", type=positive, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda, cuda:1, … (default: auto)"
    )
    parser.add_argument("--report-every", type=positive, default=20, metavar="STEPS")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="text file to learn from")
    return parser.parse_args()


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


if __name__ == "__main__":
    main()
