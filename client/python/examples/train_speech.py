#!/usr/bin/env python3
"""Learns from random pieces of sounds without labels, as wav2vec does: from what was heard, what comes next.

    train_speech.py /data/LibriSpeech/train-clean-100
"""

import torch

from common import arguments, larder, report

RATE, DIMS, AHEAD = 16_000, 32, 2


class Listener(torch.nn.Module):
    """Convolutions make a vector of each 20 ms, a recurrent network sums up what was heard until then."""

    def __init__(self):
        super().__init__()
        self.heard = torch.nn.Sequential(torch.nn.Conv1d(1, DIMS, 10, stride=5), torch.nn.ReLU(),
                                         torch.nn.Conv1d(DIMS, DIMS, 8, stride=8), torch.nn.ReLU(),
                                         torch.nn.Conv1d(DIMS, DIMS, 8, stride=8))
        self.context = torch.nn.GRU(DIMS, DIMS, batch_first=True)
        self.guess = torch.nn.Linear(DIMS, DIMS)

    def loss(self, sounds):
        """Each guess must be nearer to its own vector than to the others of the batch."""
        vectors = self.heard(sounds).transpose(1, 2)
        guesses = self.guess(self.context(vectors)[0])[:, :-AHEAD].flatten(0, 1)
        scores = guesses @ vectors[:, AHEAD:].flatten(0, 1).T
        return torch.nn.functional.cross_entropy(scores, torch.arange(len(scores), device=scores.device))


def main():
    options = arguments(__doc__, seconds=2.0)
    torch.manual_seed(0)
    pieces = [larder.RandomSegment(seconds=options.seconds), larder.ToMono(), larder.Resample(RATE),
              larder.RandomGain(-6, 6)]
    loader = larder.Loader(options.folder, pieces, options.batch_size, output="torch", drop_last=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Listener().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(options.epochs):
        heard = 0
        for sounds, _ in loader:
            loss = model.loss(sounds.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            heard += len(sounds)
        print(f"epoch {epoch}: {heard} pieces of {options.seconds:g} s, loss {loss.item():.4f}", flush=True)
    report(loader)


if __name__ == "__main__":
    main()
