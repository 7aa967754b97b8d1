class Transformer(Transformer):
    def start(self, src_ids):
        mask = padding_mask(src_ids, PAD)
        memory = self.encode(src_ids, mask)
        return memory, mask, torch.empty(len(src_ids), 0, dtype=torch.long)

    def step(self, last_ids, state):
        """Reads the whole prefix again, which is slow and right."""
        memory, mask, before = state
        ids = torch.cat([before, last_ids[:, None]], dim=1)
        x = self.embed_target(ids)
        for layer in self.decoder_layers:
            x = layer(x, memory, causal_mask(ids.size(1)), mask)
        return self.embedding.logits(x)[:, -1], (memory, mask, ids)
