from torch import nn


class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.table.weight, std=d_model**-0.5)
        self.out = nn.Linear(d_model, vocab_size, bias=False)
        self.out.weight = self.table.weight
        self.factor = d_model**0.5

    def forward(self, ids):
        return self.table(ids).mul(self.factor)

    def logits(self, hidden):
        return self.out(hidden)
