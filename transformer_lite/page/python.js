/* What the page shows, as a program in Python that computes the same numbers.
   Tests: tests/package/page/test_python_js.py */

const SUBLAYERS = {
  encoder: (layer) => `model.encoder.layers[${layer}].self_attention`,
  decoder: (layer) => `model.decoder.layers[${layer}].self_attention`,
  cross: (layer) => `model.decoder.layers[${layer}].cross_attention`,
};

export function pythonOf({ name, search, config }, settings, { steps }) {
  const { text, beamSize, alpha, temperature, seed, forced } = settings;
  const isSearched = seed === null && temperature === 1 && !Object.keys(forced).length;
  const quoted = JSON.stringify(text);
  return [
    "import torch",
    "from transformer_lite import Translator",
    ...(isSearched ? ["from transformer_lite.config import SearchConfig"] : []),
    "from transformer_lite.tokenizer import BOS, EOS",
    "",
    `translator = Translator.load(${JSON.stringify(name)}, device="cpu")`,
    "model, tokenizer = translator.model.requires_grad_(False), translator.tokenizer",
    ...changes(settings, config),
    ...(isSearched ? [
      `search = SearchConfig(beam_size=${beamSize}, alpha=${alpha}, max_extra=${search.max_extra})`,
      `ids = translator.hypotheses([${quoted}], search)[0].ids`,
    ] : [`ids = [${steps.slice(0, -1).map(({ id }) => id).join(", ")}]  # as in the page`]),
    `source, target = [*tokenizer.encode(${quoted}), EOS], [BOS, *ids]`,
    "logits = model(torch.tensor([source]), torch.tensor([target]))[0]",
    "print(tokenizer.decode(ids))",
    `for token, row in zip([*ids, EOS], (logits / ${temperature}).softmax(-1)):`,
    '    print(f"{row[token]:6.1%}", *tokenizer.pieces([token]))',
    "",
  ].join("\n");
}

/* The lines that change the model. A change of the weights does what the page does. */
function changes({ positions, scaled, kept, off, units, other, borrowed }, config) {
  const lines = [];
  const [width, narrow] = ["d_k", "d_v"].map((name) => config[name] ?? config.d_model / config.num_heads);
  if (!positions) {
    lines.push("for side in (model.encoder, model.decoder):", "    side.positions.encoding.zero_()");
  }
  if (!scaled) {
    lines.push(
      "for name, weight in model.named_parameters():",
      '    if name.endswith("w_q.weight"):', `        weight *= ${width} ** 0.5`,
    );
  }
  if (kept !== 1) {
    lines.push(
      "for layer in model.encoder.layers:",
      "    for end in (layer.after_self_attention, layer.after_feed_forward):",
      `        end.register_forward_pre_hook(lambda _, given: (${kept} * given[0], given[1]))`,
    );
  }
  for (const name of off) {
    const [kind, layer, head] = name.split(".");
    const [from, to] = [head * narrow, (+head + 1) * narrow];
    lines.push(`${SUBLAYERS[kind](layer)}.w_o.weight[:, ${from}:${to}] = 0`);
  }
  for (const [name, value] of Object.entries(units)) {
    const [side, layer, unit] = name.split(".");
    lines.push(
      `first = model.${side}.layers[${layer}].feed_forward.w_1`,
      `first.weight[${unit}], first.bias[${unit}] = 0, ${value}`,
    );
  }
  if (other && borrowed.length) lines.push(...borrowing(other, borrowed));
  return lines;
}

/* Lets heads read the keys and values of another sentence. */
function borrowing(other, borrowed) {
  const heads = {};
  for (const name of borrowed) {
    const [kind, layer, head] = name.split(".");
    (heads[SUBLAYERS[kind](layer)] ??= []).push(head);
  }
  return [
    "",
    "def read_other(attention, *heads):",
    "    usual, (keys, values) = attention.attention, others[attention]",
    "    def mixed(query, *given):",
    "        output = usual(query, *given).clone()",
    "        parts = query[:, heads], keys[:, heads], values[:, heads]",
    "        output[:, heads] = usual(*parts)",
    "        return output",
    "    attention.attention = mixed",
    "",
    `x = torch.tensor([[*tokenizer.encode(${JSON.stringify(other)}), EOS]])`,
    "x, others = model.encoder.positions(model.encoder.embedding(x)), {}",
    "for layer in model.encoder.layers:",
    "    others[layer.self_attention] = layer.self_attention.keys_and_values(x)",
    "    x = layer(x, None)",
    "for layer in model.decoder.layers:",
    "    others[layer.cross_attention] = layer.cross_attention.keys_and_values(x)",
    ...Object.entries(heads).map(([name, some]) => `read_other(${name}, ${some.join(", ")})`),
    "",
  ];
}
