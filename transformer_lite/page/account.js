/* Where a number comes from: the account of a logit, down to the words of the sentence.

   A logit is a product of the decoder's output with the piece's row of the matrix. So are
   all shares of it: each vector on the way is a sum of others, and a share is the product
   of one of them with a *direction*. Three things are not sums: LayerNorm's division, the
   weights of attention, and which units of a feed-forward network are above 0. They keep
   the values that the model has computed. Then every account is a sum without a rest.

   Paper: Sections 3.1 to 3.5
   Tests: tests/package/page/test_account_js.py */

import { BOS, addAndNorm, dot, linear, scaledDotProductAttention } from "./transformer.js";

const LISTED = 12; // of the terms of an account; the others are one term
const ONE = Float64Array.of(1);

/* The nodes of an account. Each has a title, its value (a vector), the line of code that
   computes it, and `terms(g)`: what g · value is the sum of. A term has a key, a title
   and a share. If it has an account of its own, it `opens` a node with a direction. */

/* A token's row of the matrix times √d_model, plus its position (Sections 3.4 and 3.5). */
function embedded(model, side, id, place, name, changes) {
  const value = model.embed(side, id, place, changes);
  const row = model.embed(side, id, place, { ...changes, positions: false });
  return {
    key: "embedding",
    title: `the embedding of “${name}”`,
    value,
    code: "return add(embedded, encoding);",
    terms: (g) => [
      { key: "row", title: `“${name}” itself: √d times its row of the matrix`, share: dot(g, row) },
      { key: "position", title: `the encoding of place ${place + 1}`, share: dot(g, value) - dot(g, row) },
    ],
  };
}

/* The direction in front of a LayerNorm, from the one behind it: its gain, the division
   that it has made, and the mean that it has taken away. */
function beforeNorm({ weight }, sum, g) {
  const mean = sum.reduce((a, b) => a + b, 0) / sum.length;
  const variance = sum.reduce((total, value) => total + (value - mean) ** 2, 0) / sum.length;
  const direction = g.map((value, i) => (value * weight[i]) / Math.sqrt(variance + 1e-5));
  const common = direction.reduce((a, b) => a + b, 0) / direction.length;
  return direction.map((value) => value - common);
}

const termOf = (node, g) => ({ key: node.key, title: node.title, share: dot(g, node.value), opens: [node, g] });

/* A token's vector behind a LayerNorm (Section 3.1). Its terms are what each sub-layer so
   far has added, and the embedding. */
function normed(norm, x, sublayer) {
  const sum = x.value.map((value, i) => value + sublayer.value[i]);
  return {
    value: addAndNorm(norm, x.value, sublayer.value),
    code: "return layerNorm(norm, add(x, sublayerOutput));",
    terms(g) {
      const before = beforeNorm(norm, sum, g);
      const earlier = x.key ? [termOf(x, before)] : x.terms(before);
      const shift = earlier.find(({ key }) => key === "shifts")?.share ?? 0;
      return [
        termOf(sublayer, before),
        ...earlier.filter(({ key }) => key !== "shifts"),
        { key: "shifts", title: "the shifts of the LayerNorms", share: shift + dot(g, norm.bias) },
      ];
    },
  };
}

/* Wᵀg for `g.length` rows of a matrix, from a row on. */
function transposed({ weight }, columns, g, from = 0) {
  const result = new Float64Array(columns);
  g.forEach((value, row) => {
    const at = (from + row) * columns;
    for (let column = 0; column < columns; column++) result[column] += value * weight[at + column];
  });
  return result;
}

/* A feed-forward network (Section 3.3): each unit times its column of W₂. */
function network(feedForward, x, key, title) {
  const { w_1, w_2 } = feedForward;
  const width = x.value.length;
  const units = linear(w_1, x.value).map((value) => Math.max(0, value));
  return {
    key,
    title,
    value: feedForward.forward(x.value),
    code: "return linear(this.w_2, linear(this.w_1, x).map((value) => Math.max(0, value)));",
    terms(g) {
      const effects = transposed(w_2, units.length, g);
      const terms = Array.from(effects, (effect, i) => ({
        key: `u${i}`, title: `unit ${i}, which is at ${units[i].toFixed(2)}`, share: units[i] * effect,
        opens: units[i] > 0 && [unit(i), Float64Array.of(effect)],
      }));
      return [...terms, { key: "bias", title: "the bias b₂", share: dot(g, w_2.bias) }];
    },
  };

  /* A unit above 0 is the product of x with its row of W₁, plus its bias. */
  function unit(i) {
    const row = w_1.weight.subarray(i * width, (i + 1) * width);
    return {
      title: `unit ${i} of ${title}`,
      value: units.subarray(i, i + 1),
      code: "linear(this.w_1, x)",
      terms: ([effect]) => [
        ...x.terms(Float64Array.from(row, (value) => effect * value)),
        { key: "bias", title: "the unit's bias", share: effect * w_1.bias[i] },
      ],
    };
  }
}

/* An attention sub-layer (Section 3.2.2): a sum over heads, and in a head over words.
   The memory is a list of { node, name, stored }. */
function attended(attention, x, memory, changes, title) {
  const { place } = attention;
  const width = x.value.length;
  const stored = memory.map((word) => word.stored);
  const queries = attention.split(linear(attention.w_q, x.value));
  const heads = queries.map((query, head) => scaledDotProductAttention(
    query, stored.map(({ key }) => key[head]), stored.map(({ value }) => value[head]), changes.scaled,
  ));
  return {
    key: place,
    title,
    value: attention.attend(x.value, stored, { ...changes, watch: null }),
    code: "return linear(this.w_o, concatenate(outputs));",
    terms(g) {
      const columns = heads.length * heads[0].output.length;
      return attention.split(transposed(attention.w_o, columns, g)).map((direction, head) => {
        const off = changes.off.has(`${place}.${head}`);
        const share = off ? 0 : dot(direction, heads[head].output);
        const title = `head ${head + 1}${off ? ", which is off" : ""}`;
        return { key: `h${head}`, title, share, opens: !off && [oneHead(head), direction] };
      });
    },
  };

  function oneHead(head) {
    const { output, weights } = heads[head];
    return {
      title: `head ${head + 1} of ${title}`,
      value: output,
      code: "for (let i = 0; i < output.length; i++) output[i] += weights[j] * value[i];",
      terms: (g) => memory.map(({ node, name }, j) => {
        const weighted = g.map((value) => weights[j] * value);
        return {
          key: `w${j}`,
          title: `${Math.round(100 * weights[j])} % of “${name}”`,
          share: dot(weighted, stored[j].value[head]),
          opens: [node, transposed(attention.w_v, width, weighted, head * output.length)],
          why: { key: `s${j}`, opens: [score(head, j), ONE] },
        };
      }),
    };
  }

  /* A score is a product of a query and a key: a sum over their components. */
  function score(head, j) {
    const [query, key] = [queries[head], stored[j].key[head]];
    const divisor = changes.scaled ? Math.sqrt(query.length) : 1;
    return {
      title: `the score of “${memory[j].name}” in head ${head + 1} of ${title}`,
      value: [dot(query, key) / divisor],
      code: "const weights = softmax(keys.map((key) => dot(query, key) / divisor));",
      terms: () => Array.from(query, (value, i) => ({
        key: `c${i}`, title: `component ${i} of query and key`, share: (value * key[i]) / divisor,
      })),
    };
  }
}

/* What the words of a sequence give to attention. `where` says how far they have come. */
const remembered = (attention, sequence, names, where) =>
  sequence.map((node, j) => ({
    node: { ...node, title: `“${names[j]}” ${where}` },
    name: names[j],
    stored: attention.keyAndValue(node.value),
  }));

/* A layer's sub-layers for one token, each with a LayerNorm behind it. */
function layerOf(x, norms, sublayers) {
  return sublayers.reduce((x, sublayer, i) => normed(norms[i], x, sublayer(x)), x);
}

/* The vector from which the next piece is chosen, as a node.
     source   the ids of the sentence, with EOS
     written  the ids of the output so far
     nameOf   what the accounts call a piece, by its id */
export function lastVector(model, source, written, nameOf, changes) {
  const read = source.map(nameOf);
  let sequence = source.map((id, i) => embedded(model, "encoder", id, i, read[i], changes));
  model.encoderLayers.forEach(({ selfAttention, feedForward, norm1, norm2 }, number) => {
    const layer = `encoder layer ${number + 1}`;
    const memory = remembered(selfAttention, sequence, read, `in front of ${layer}`);
    sequence = sequence.map((x) => layerOf(x, [norm1, norm2], [
      (x) => attended(selfAttention, x, memory, changes, `the self-attention of ${layer}`),
      (x) => network(feedForward, x, `encoder.${number}.network`, `the feed-forward network of ${layer}`),
    ]));
  });
  const ids = [BOS, ...written];
  const begun = ids.map(nameOf);
  let outputs = ids.map((id, i) => embedded(model, "decoder", id, i, begun[i], changes));
  model.decoderLayers.forEach(({ selfAttention, crossAttention, feedForward, norm1, norm2, norm3 }, number) => {
    const layer = `decoder layer ${number + 1}`;
    const past = remembered(selfAttention, outputs, begun, `in front of ${layer}`);
    const memory = remembered(crossAttention, sequence, read, "behind the encoder");
    outputs = outputs.map((x, i) => layerOf(x, [norm1, norm2, norm3], [
      (x) => attended(selfAttention, x, past.slice(0, i + 1), changes, `the self-attention of ${layer}`),
      (x) => attended(crossAttention, x, memory, changes, `the cross-attention of ${layer}`),
      (x) => network(feedForward, x, `decoder.${number}.network`, `the feed-forward network of ${layer}`),
    ]));
  });
  return outputs.at(-1);
}

/* The account of a logit, or of a term in it.
     asked   id, whose logit it is; other, an id whose logit is taken away, or null; and
             keys, the terms that are opened one after the other
     last    what `lastVector` returns
   Returns the trail that leads there, a list of { title, value }; the terms, the largest
   first; how many others there are and their sum; what is missing to the value; and the
   line of code. */
export function account({ id, other, keys }, last, model, nameOf) {
  const width = last.value.length;
  const row = (of) => model.embedding.subarray(of * width, (of + 1) * width);
  let g = Float64Array.from(row(id));
  if (other !== null) g = g.map((value, i) => value - row(other)[i]);
  const title = other === null
    ? `the logit of “${nameOf(id)}”`
    : `the lead of “${nameOf(id)}” over “${nameOf(other)}”`;
  let node = { ...last, title, code: "const logits = linear({ weight: this.embedding }, x);" };
  const trail = [{ title, value: dot(g, node.value) }];
  for (const key of keys) {
    const term = node.terms(g).flatMap((each) => [each, each.why ?? []].flat())
      .find((each) => each.key === key);
    if (!term?.opens) throw new Error(`${node.title} has no account of ${key}`);
    [node, g] = term.opens;
    trail.push({ title: node.title, value: dot(g, node.value) });
  }
  const terms = node.terms(g).sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
  const sum = (some) => some.reduce((total, { share }) => total + share, 0);
  const rest = terms.slice(LISTED);
  return {
    trail,
    terms: terms.slice(0, LISTED).map(({ key, title, share, opens, why }) =>
      ({ key, title, share, opens: Boolean(opens), why: why?.key ?? null })),
    others: rest.length,
    rest: sum(rest),
    missing: trail.at(-1).value - sum(terms),
    code: node.code,
  };
}
