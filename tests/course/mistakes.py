"""Well-known mistakes, each as a change of a right solution, and what must be said of it.

Where readers and projects made them: research on tutorials' issues; the chapters' "Where
people go wrong" link to many.
"""

SPLIT = "x.view(batch, length, self.num_heads, -1).transpose(1, 2)"
SAME_VIEW = "x.reshape(batch, self.num_heads, length, -1)"
MERGE = "heads.transpose(1, 2).reshape(batch, length, -1)"

MISTAKES = {
    "attention": (
        ("dim=-1", "dim=-2", "over the queries"),
        ("scores = scores / math.sqrt(query.size(-1))", "pass", "not scaled"),
        ("math.sqrt(query.size(-1))", "query.size(-1)", "divided by d_k"),
        ("scores / math.sqrt(", "scores * math.sqrt(", "multiplied by √d_k"),
        ("query.size(-1)", "key.size(-2)", "number of keys"),
        ("masked_fill(~mask", "masked_fill(mask", "wrong way round"),
        ("if mask is not None", "if False", "mask has no effect"),
        ("scores.masked_fill(~mask, -math.inf)", "scores * mask", "become 0"),
        (
            "scores.masked_fill(~mask, -math.inf)",
            "scores + mask",
            "added to the scores",
        ),
        ("-math.inf", "-1e-9", "become 0"),
        ("-math.inf", "-1e9", "half precision"),
        ("scores.softmax(dim=-1)", "scores", "no softmax"),
        ("scores.softmax", "scores.log_softmax", "logarithms"),
        (
            "weights = scores.softmax(dim=-1)",
            "weights = (query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)))"
            ".softmax(-1) * (1 if mask is None else mask)",
            "after the softmax",
        ),
        ("return weights @ value, weights", "return weights @ value", "two tensors"),
        ("key.transpose(-2, -1)", "key", "attention.py, line"),
        (
            "scores = scores / math.sqrt(query.size(-1))",
            "query /= math.sqrt(query.size(-1)); scores = query @ key.transpose(-2, -1)",
            "argument query in place",
        ),
    ),
    "masks": (
        ("ids != pad_id", "ids == pad_id", "padding mask is the wrong way round"),
        ("real[:, None, None, :]", "real[:, None, :, None]", "hides queries"),
        ("real[:, None, None, :]", "real", "no axes for heads"),
        ("real[:, None, None, :]", "real[:, None, :]", "one axis too few"),
        ("ids != pad_id", "ids != 0", "whatever pad_id is"),
        ("real[:, None, None, :]", "real[:, None, None, :].float()", "torch.bool"),
        (".tril()", ".triu()", "lower triangle"),
        (".tril()", ".triu(1)", "causal mask is the wrong way round"),
        (".tril()", ".tril(-1)", "no position sees itself"),
        (".tril()", ".tril(1)", "sees the next one"),
        (
            "torch.ones(length, length, dtype=torch.bool).tril()",
            "torch.full((length, length), float('-inf')).triu(1)",
            "0 and -inf",
        ),
    ),
    "heads": (
        (SPLIT, SAME_VIEW, "cut out by view alone"),
        (MERGE, "heads.reshape(batch, length, -1)", "without transposing back"),
        (
            SPLIT,
            "x.view(batch, length, -1, self.num_heads).permute(0, 3, 1, 2)",
            "are cut as d_k × heads",
        ),
        (
            MERGE,
            "heads.permute(0, 2, 3, 1).reshape(batch, length, -1)",
            "put together as d_k × heads",
        ),
        (
            f"{SPLIT}\n\n    def merge(self, heads):\n"
            f"        batch, _, length, _ = heads.shape\n        return {MERGE}",
            "x.view(batch, length, -1, self.num_heads).permute(0, 3, 1, 2)\n\n"
            "    def merge(self, heads):\n"
            "        return heads.permute(0, 2, 3, 1).flatten(2)",
            "cut it as heads × d_k",
        ),
        (
            "self.w_k(memory)), self.split(self.w_v(memory))",
            "self.w_v(memory)), self.split(self.w_k(memory))",
            "keys come from w_v and the values from w_k",
        ),
        ("self.split(self.w_q(query))", "self.split(query)", "query is not projected"),
        (
            "scaled_dot_product_attention(query, key, value, mask)",
            "scaled_dot_product_attention(\n"
            "            query, key, value, None if mask is None else mask.unsqueeze(1)\n"
            "        )",
            "adds an axis to the mask",
        ),
        ("return self.w_o(self.merge(heads))", "return self.merge(heads)", "w_o"),
        (
            "self.split(self.w_v(memory))",
            "self.split(self.w_k(memory))",
            "values come from w_k",
        ),
        (
            "self.keys_and_values(memory), mask",
            "self.keys_and_values(query), None",
            "from the query",
        ),
        (
            "scaled_dot_product_attention(query, key, value, mask)",
            "scaled_dot_product_attention(query, key, value)",
            "mask has no effect",
        ),
        (
            "query = self.split(self.w_q(query))",
            "query = self.split(self.w_q(query)) / self.num_heads**0.5",
            "root of d_model",
        ),
        (
            "        self.w_v = nn.Linear(d_model, d_model, bias=False)\n",
            "",
            "no parameter w_v",
        ),
        ("self.w_q(query)", "self.w_q(query).detach()", "No gradient reaches"),
    ),
    "layers": (
        ("self.w_1(x).relu()", "self.w_1(x)", "no ReLU"),
        (
            "self.w_2(self.w_1(x).relu())",
            "self.w_2(self.w_1(x)).relu()",
            "after the second",
        ),
        ("self.w_1(x).relu()", "nn.functional.gelu(self.w_1(x))", "GELU"),
        (
            "self.norm(x + self.dropout(sublayer_output))",
            "x + self.dropout(self.norm(sublayer_output))",
            "only the sub-layer's output",
        ),
        (
            "self.norm(x + self.dropout(sublayer_output))",
            "self.norm(x) + self.dropout(sublayer_output)",
            "pre-norm",
        ),
        (
            "self.norm(x + self.dropout(",
            "self.norm(self.dropout(",
            "residual connection",
        ),
        (
            "self.norm(x + self.dropout(sublayer_output))",
            "x + self.dropout(sublayer_output)",
            "does not normalize",
        ),
        (
            "self.norm(x + self.dropout(sublayer_output))",
            "self.dropout(self.norm(x + sublayer_output))",
            "out of its result",
        ),
        ("self.dropout(sublayer_output)", "sublayer_output", "no dropout"),
        (
            "self.norm(x + self.dropout(sublayer_output))",
            "self.by_hand(x + self.dropout(sublayer_output))\n\n"
            "    def by_hand(self, x):\n"
            "        centred = x - x.mean(-1, keepdim=True)\n"
            "        deviation = x.std(-1, keepdim=True) + 1e-6\n"
            "        return self.norm.weight * centred / deviation + self.norm.bias",
            "divides by n - 1",
        ),
        (
            "self.norm(x + self.dropout(sublayer_output))",
            "nn.functional.layer_norm((s := x + self.dropout(sublayer_output)), "
            "s.shape[1:]) * self.norm.weight + self.norm.bias",
            "positions and channels",
        ),
        (
            "self.self_attention(x, x, mask)",
            "self.self_attention(x, x)",
            "not pass its mask",
        ),
        (
            "return self.after_feed_forward(x, self.feed_forward(x))\n\n\nclass Dec",
            "return self.after_self_attention(x, self.feed_forward(x))\n\n\nclass Dec",
            "one AddAndNorm",
        ),
        (
            "x = self.after_self_attention(x, attended)\n"
            "        return self.after_feed_forward(x, self.feed_forward(x))\n\n\nclass Dec",
            "y = self.after_self_attention(x, attended)\n"
            "        return self.after_feed_forward(y, self.feed_forward(x))\n\n\nclass Dec",
            "reads the layer's input",
        ),
        (
            "self.self_attention(x, x, causal)",
            "self.self_attention(x, x)",
            "into the future",
        ),
        (
            "self.cross_attention(x, memory, memory_mask)",
            "self.cross_attention(x, memory)",
            "source's padding",
        ),
        (
            "self.cross_attention(x, memory, memory_mask)",
            "self.cross_attention(x, x)",
            "reads x alone",
        ),
        ("torch.cat([past[0], newest[0]], dim=2)", "newest[0]", "layers.py, line"),
        (
            "attend(x, (keys, values), mask)",
            "attend(x, newest, mask[..., -1:])",
            "only the newest position",
        ),
    ),
    "embeddings": (
        (
            "self.weight[ids] * self.scale",
            "self.weight[ids]",
            "not multiplied by √d_model",
        ),
        (
            "self.weight[ids] * self.scale",
            "self.weight[ids] * self.scale**2",
            "multiplied by d_model",
        ),
        (
            "self.weight[ids] * self.scale",
            "self.weight[ids] / self.scale",
            "divided by √d_model",
        ),
        (" / self.scale)", ")", "variance of 1"),
        (
            "hidden @ self.weight.T",
            "hidden @ self.weight.T * self.scale",
            "logits are multiplied",
        ),
        (
            "hidden @ self.weight.T",
            "(hidden @ self.weight.T).softmax(-1)",
            "ends in a softmax",
        ),
        (
            "hidden @ self.weight.T",
            "(hidden @ self.weight.T).log_softmax(-1)",
            "log_softmax",
        ),
        (
            "        self.weight =",
            "        self.output = nn.Parameter(torch.randn(vocab_size, d_model))\n"
            "        self.weight =",
            "same matrix embeds and scores",
        ),
    ),
    "positions": (
        (
            "encoding[:, 0::2] = torch.sin(angle)\n    encoding[:, 1::2] = torch.cos(angle)",
            "encoding = torch.cat([torch.sin(angle), torch.cos(angle)], 1)",
            "All sines come first",
        ),
        ("torch.sin(angle)", "torch.cos(angle)", "differs from the book's"),
        ("torch.cos(angle)", "torch.sin(angle)", "Every channel is a sine"),
        ("torch.arange(0, length,", "torch.arange(1, length + 1,", "begin at 1"),
        ("position / 10_000", "position * 10_000", "multiplied by 10000"),
        ("10_000", "1_000", "base is 1000"),
        (
            "torch.arange(0, d_model, 2) / d_model",
            "2 * torch.arange(0, d_model, 2) / d_model",
            "counts 2i already",
        ),
        (
            "torch.arange(0, d_model, 2) / d_model",
            "torch.arange(d_model // 2) / d_model",
            "exponent is i",
        ),
        ("return encoding", "return encoding.T", "Rows and columns"),
    ),
    "model": (
        (
            "self.embedding(ids) + self.encoding[: ids.size(1)]",
            "self.embedding(ids)",
            "source has no positions",
        ),
        (
            "self.embedding(ids) + self.encoding[start:end]",
            "self.embedding(ids)",
            "target has no positions",
        ),
        (
            "x = layer(x, memory, causal, mask)",
            "x = layer(x, memory, causal | True, mask)",
            "into the future",
        ),
        (
            "            x = layer(x, mask)",
            "            x = layer(x, mask | True)",
            "encoder sees the source's padding",
        ),
        (
            "x = layer(x, memory, causal, mask)",
            "x = layer(x, memory, causal, mask | True)",
            "decoder sees the source's padding",
        ),
        (
            "return self.embedding.logits(x)\n",
            "return self.embedding.logits(x).softmax(-1)\n",
            "ends in a softmax",
        ),
        (
            "memory = self.encode(src_ids, mask)\n        causal",
            "memory = self.embed_source(src_ids)\n        causal",
            "reads the source's embeddings",
        ),
        (
            "nn.ModuleList([EncoderLayer(config) for _ in layers])",
            "nn.ModuleList([EncoderLayer(config)] * config.num_layers)",
            "one and the same layer",
        ),
        (
            "        self.dropout =",
            "        self.output = Embedding(config.vocab_size, config.d_model)\n"
            "        self.dropout =",
            "more than one embedding matrix",
        ),
        (
            "        self.dropout =",
            "        self.norm = nn.LayerNorm(config.d_model)\n        self.dropout =",
            "one more parameter",
        ),
        ("start=place", "start=0", "position that step adds"),
        (
            "return logits, (crossed, mask, longer, place + 1)",
            "past[:] = longer\n        return logits, (crossed, mask, past, place + 1)",
            "changes the state",
        ),
    ),
    "loss": (
        ("(loss * real).sum(), real.sum()", "loss.sum(), real.sum()", "Padding counts"),
        ("(loss * real).sum(), real", "(loss * real).mean(), real", "differs"),
        (
            "(loss * real).sum(), real.sum()",
            "(loss * real).sum() / real.sum(), real.sum()",
            "loss is a mean",
        ),
        (
            "-(1 - smoothing) * right - share * wrong",
            "(1 - smoothing) * right + share * wrong",
            "wrong sign",
        ),
        ("labels != pad_id", "labels != 0", "whatever pad_id is"),
        ("-(1 - smoothing) * right - share * wrong", "-right", "not smoothed"),
        (
            "return (loss * real).sum(), real.sum()",
            "loss = -(1 - smoothing - share) * right * real - share * log_probs.sum(-1)\n"
            "    return loss.sum(), real.sum()",
            "smoothed part also counts padding",
        ),
        (
            "share = smoothing / (logits.size(-1) - 1)",
            "share = smoothing / logits.size(-1)\n    smoothing = smoothing - share",
            "as PyTorch does",
        ),
        (
            "logits.log_softmax(dim=-1)",
            "logits.softmax(-1).log_softmax(-1)",
            "softmax is taken twice",
        ),
        ("logits.log_softmax(dim=-1)", "logits.softmax(-1).log()", "large logits"),
        (", real.sum()\n", ", labels.numel()\n", "number of tokens"),
    ),
    "schedule": (
        ("min(", "max(", "larger of both"),
        ("d_model**-0.5 * min", "d_model**0.5 * min", "multiplies by √d_model"),
        ("d_model**-0.5 * min", "min", "no factor"),
        ("warmup**-1.5", "warmup**-0.5", "rises too fast"),
        ("min(step**-0.5, step * warmup**-1.5)", "(step * warmup**-1.5)", "for ever"),
        (
            "        loss.backward()\n",
            "        loss.backward()\n        schedule.step()\n",
            "schedule.step() once",
        ),
        (
            "    schedule.step()\n",
            "    for _ in batches:\n        schedule.step()\n",
            "with every batch",
        ),
        ("    schedule.step()\n", "", "never goes on"),
        ("    optimizer.step()\n", "", "never takes its step"),
        (
            "        loss.backward()\n",
            "        (loss / number / len(batches)).backward()\n",
            "differs",
        ),
        (
            "        loss.backward()\n",
            "        optimizer.zero_grad()\n        loss.backward()\n",
            "Only the last batch",
        ),
        ("parameter.grad /= tokens", "pass", "gradient is that of the sum"),
        (
            "parameter.grad /= tokens",
            "parameter.grad /= len(batches)",
            "number of batches",
        ),
        (
            "    schedule.step()\n    optimizer.zero_grad()\n",
            "    schedule.step()\n",
            "not cleared afterwards",
        ),
        (
            "    optimizer.step()\n    schedule.step()\n",
            "    schedule.step()\n    optimizer.step()\n",
            "and then schedule.step()",
        ),
    ),
    "batching": (
        (
            "list(row) + [pad_id] * (longest - len(row))",
            "[pad_id] * (longest - len(row)) + list(row)",
            "at the beginning",
        ),
        ("[pad_id] *", "[0] *", "whatever pad_id is"),
        ("[[bos_id, *target] for", "[[*target, eos_id] for", "reads its own labels"),
        ("[[*target, eos_id] for", "[[bos_id, *target] for", "not shifted"),
        ("[*target, eos_id]", "[*target]", "no EOS"),
        ("[bos_id, *target]", "[*target]", "does not read BOS"),
        ("[bos_id, *target]", "[bos_id, *target, eos_id]", "reads EOS too"),
        ("    batches.append(batch)\n    generator", "    generator", "keep the last"),
        (
            "(len(batch) + 1) * lengths[number] > batch_tokens",
            "sum(lengths[n] for n in [*batch, number]) > batch_tokens",
            "without padding",
        ),
        ("    order.sort(key=lambda number: lengths[number])\n", "", "with padding"),
        ("    generator.shuffle(batches)\n", "", "order of their lengths"),
        ("random.Random(seed)", "random.Random()", "same seed gives other"),
        ("random.Random(seed)", "random.Random(0)", "Another seed"),
    ),
    "search": (
        (".argmax()", ".argmin()", "greedy_search"),
        ("    return ids[1:]\n", "    return ids\n", "returns BOS"),
        (
            "        if token == eos_id:\n            break\n        ids.append(token)\n",
            "        ids.append(token)\n        if token == eos_id:\n            break\n",
            "returns EOS",
        ),
        (
            "        if token == eos_id:\n            break\n",
            "",
            "after EOS it goes on",
        ),
        ("ids[1:-1]", "ids[1:]", "returns EOS"),
        ("log_prob / ((5 + length) / 6) ** alpha", "log_prob", "ignores α"),
        ("log_prob / ((5", "log_prob * ((5", "multiplies by the length penalty"),
        ("((5 + length) / 6)", "length", "by the length itself"),
        ("((5 + length) / 6)", "((4 + length) / 6)", "leaves EOS out"),
        ("max(finished)", "min(finished)", "With a beam of"),
        ("max(finished)", "finished[0]", "With a beam"),
        ("if not beams:", "if finished:", "With a beam"),
        ("before + log_prob", "log_prob", "With a beam"),
    ),
}
