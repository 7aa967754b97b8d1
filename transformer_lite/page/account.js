/* Where a number comes from: the account of a logit, down to the words of the sentence.

   A logit is a product of the decoder's output with the piece's row of the matrix. So are
   all shares of it: each vector on the way is a sum of others, and a share is the product
   of one of them with a *direction*. Three things are not sums: LayerNorm's division, the
   weights of attention, and which units of a feed-forward network are above 0. They keep
   the values that the model has computed. Then every account is a sum without a rest.

   Paper: Sections 3.1 to 3.5
   Tests: tests/package/page/test_account_js.py */

import { t } from "./messages.js";
import { BOS, addAndNorm, dot, linear, scaledDotProductAttention } from "./transformer.js";

const LISTED = 12; // of the terms of an account; the others are one term
const ONE = Float64Array.of(1);

/* The nodes of an account. Each has a title, its value (a vector), the line of code that
   computes it, and `terms(g)`: what g · value is the sum of. A term has a key, a title
   and a share. If it has an account of its own, it `opens` a node with a direction.
   `views` open what else is a sum: the same number by other parts, or a LayerNorm's variance. */

/* A token's row of the matrix times √d_model, plus its position (Sections 3.4 and 3.5). */
function embedded(model, side, id, place, name, changes) {
  const value = model.embed(side, id, place, changes);
  const row = model.embed(side, id, place, { ...changes, positions: false });
  return {
    key: "embedding",
    title: t`the embedding of “${name}”`,
    value,
    code: "return add(embedded, encoding);",
    terms: (g) => [
      { key: "row", title: t`“${name}” itself: √d times its row of the matrix`, share: dot(g, row) },
      { key: "position", title: t`the encoding of place ${place + 1}`, share: dot(g, value) - dot(g, row) },
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
   far has added, and the embedding. `kept` is the part of x that is added. */
function normed(norm, x, sublayer, kept) {
  const part = x.value.map((value) => kept * value);
  const sum = part.map((value, i) => value + sublayer.value[i]);
  return {
    value: addAndNorm(norm, part, sublayer.value),
    code: "return layerNorm(norm, add(x, sublayerOutput));",
    terms(g) {
      const before = beforeNorm(norm, sum, g);
      const ofX = before.map((value) => kept * value);
      const earlier = x.key ? [termOf(x, ofX)] : x.terms(ofX);
      const shift = earlier.find(({ key }) => key === "shifts")?.share ?? 0;
      return [
        termOf(sublayer, before),
        ...earlier.filter(({ key }) => key !== "shifts"),
        { key: "shifts", title: t`the shifts of the LayerNorms`, share: shift + dot(g, norm.bias) },
      ];
    },
    views: [{ key: "variance", title: t`The variance by whose root LayerNorm divides`, opens: [variance(), ONE] }],
  };

  /* The mean square of what differs from the mean: a sum over the same parts. */
  function variance() {
    const mean = sum.reduce((a, b) => a + b, 0) / sum.length;
    const direction = Float64Array.from(sum, (value) => (value - mean) / sum.length);
    const ofX = direction.map((value) => kept * value);
    return {
      title: t`the variance in front of the LayerNorm`,
      value: [dot(direction, sum)],
      code: "const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;",
      terms: () => [termOf(sublayer, direction), ...(x.key ? [termOf(x, ofX)] : x.terms(ofX))],
    };
  }
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
function network(feedForward, x, changes, title) {
  const { w_1, w_2, place } = feedForward;
  const width = x.value.length;
  const units = feedForward.units(x.value, changes);
  const set = new Map(changes.units.get(place));
  return {
    key: `${place}.network`,
    title,
    value: feedForward.forward(x.value, changes),
    code: "return linear(this.w_2, this.units(x, changes));",
    terms(g) {
      const effects = transposed(w_2, units.length, g);
      const terms = Array.from(effects, (effect, i) => ({
        key: `u${i}`, share: units[i] * effect,
        title: set.has(i)
          ? t`unit ${i}, which is set to ${units[i].toFixed(2)}`
          : t`unit ${i}, which is at ${units[i].toFixed(2)}`,
        opens: units[i] > 0 && !set.has(i) && [unit(i), Float64Array.of(effect)],
      }));
      return [...terms, { key: "bias", title: t`the bias b₂`, share: dot(g, w_2.bias) }];
    },
  };

  /* A unit above 0 is the product of x with its row of W₁, plus its bias. */
  function unit(i) {
    const row = w_1.weight.subarray(i * width, (i + 1) * width);
    return {
      title: t`unit ${i} of ${title}`,
      value: units.subarray(i, i + 1),
      code: "linear(this.w_1, x)",
      terms: ([effect]) => [
        ...x.terms(Float64Array.from(row, (value) => effect * value)),
        { key: "bias", title: t`the unit's bias`, share: effect * w_1.bias[i] },
      ],
    };
  }
}

/* An attention sub-layer (Section 3.2.2): a sum over heads, and in a head over words.
   The memory is a list of { node, name, stored }. */
function attended(attention, x, memory, changes, title) {
  const { place } = attention;
  const width = x.value.length;
  const queries = attention.split(linear(attention.w_q, x.value));
  const read = queries.map((_, head) => wordsOf(changes.borrowed.get(`${place}.${head}`)) ?? memory);
  const heads = queries.map((query, head) => scaledDotProductAttention(
    query, read[head].map(({ stored: { key } }) => key[head]),
    read[head].map(({ stored: { value } }) => value[head]), changes.scaled,
  ));
  return {
    key: place,
    title,
    score,
    value: attention.attend(x.value, memory.map(({ stored }) => stored), { ...changes, watch: null }),
    code: "return linear(this.w_o, concatenate(outputs));",
    terms(g) {
      const columns = heads.length * heads[0].output.length;
      return attention.split(transposed(attention.w_o, columns, g)).map((direction, head) => {
        const off = changes.off.has(`${place}.${head}`);
        const share = off ? 0 : dot(direction, heads[head].output);
        const title = off ? t`head ${head + 1}, which is off` : t`head ${head + 1}`;
        return { key: `h${head}`, title, share, opens: !off && [oneHead(head), direction] };
      });
    },
  };

  function oneHead(head) {
    const { output, weights } = heads[head];
    return {
      title: t`head ${head + 1} of ${title}`,
      value: output,
      code: "for (let i = 0; i < output.length; i++) output[i] += weights[j] * value[i];",
      terms: (g) => read[head].map(({ node, name, stored }, j) => {
        const weighted = g.map((value) => weights[j] * value);
        const percent = Math.round(100 * weights[j]);
        return {
          key: `w${j}`,
          title: t`${percent} % of “${name}”`,
          share: dot(weighted, stored.value[head]),
          opens: node && [node, transposed(attention.w_v, width, weighted, head * output.length)],
          why: { key: `s${j}`, asks: t`Why ${percent} %?`, opens: [score(head, j), ONE] },
        };
      }),
    };
  }

  /* A score is a product of a query and a key: a sum over their components. Each is a
     linear map of a vector, so the score is also a sum over what this vector is made of. */
  function score(head, j) {
    const { node, name, stored: { key: keys } } = read[head][j];
    const [query, key] = [queries[head], keys[head]];
    const divisor = changes.scaled ? Math.sqrt(query.length) : 1;
    const value = [dot(query, key) / divisor];
    const ofScore = t`the score of “${name}” in head ${head + 1} of ${title}`;
    const view = (key, title, ofTerms, matrix, x, other) => {
      const direction = other.map((value) => value / divisor);
      const terms = () => x.terms(transposed(matrix, width, direction, head * query.length));
      const code = `linear(this.${key}, x)`;
      return { key, title, opens: [{ title: ofTerms, value, code, terms }, ONE] };
    };
    return {
      title: ofScore,
      value,
      code: "const weights = softmax(keys.map((key) => dot(query, key) / divisor));",
      terms: () => Array.from(query, (value, i) => ({
        key: `c${i}`, title: t`component ${i} of query and key`, share: (value * key[i]) / divisor,
      })),
      views: [
        view(
          "w_q", t`The same number by what the query is made of`,
          t`${ofScore}, by what the query is made of`, attention.w_q, x, key,
        ),
        ...(node ? [view(
          "w_k", t`The same number by what the key is made of`,
          t`${ofScore}, by what the key is made of`, attention.w_k, node, query,
        )] : []),
      ],
    };
  }
}

/* What a head reads of another sentence. Its words have no account. */
const wordsOf = (borrowed) => borrowed?.map((stored) => ({ name: stored.name, stored }));

/* What the words of a sequence give to attention. `titleOf` says how far each has come. */
const remembered = (attention, sequence, names, titleOf) =>
  sequence.map((node, j) => ({
    node: { ...node, title: titleOf(names[j]) },
    name: names[j],
    stored: attention.keyAndValue(node.value),
  }));

/* A layer's sub-layers for one token, each with a LayerNorm behind it. */
function layerOf(x, norms, sublayers, kept = 1) {
  return sublayers.reduce((x, sublayer, i) => normed(norms[i], x, sublayer(x), kept), x);
}

/* The vector from which the next piece is chosen, as a node. Its `attentions` are those of
   all tokens, by their places.
     source   the ids of the sentence, with EOS
     written  the ids of the output so far
     nameOf   what the accounts call a piece, by its id */
export function lastVector(model, source, written, nameOf, changes) {
  const attentions = {};
  const noted = (node) => {
    (attentions[node.key] ??= []).push(node);
    return node;
  };
  const read = source.map(nameOf);
  let sequence = source.map((id, i) => embedded(model, "encoder", id, i, read[i], changes));
  model.encoderLayers.forEach(({ selfAttention, feedForward, norm1, norm2 }, number) => {
    const layer = t`encoder layer ${number + 1}`;
    const memory = remembered(selfAttention, sequence, read, (name) => t`“${name}” in front of ${layer}`);
    sequence = sequence.map((x) => layerOf(x, [norm1, norm2], [
      (x) => noted(attended(selfAttention, x, memory, changes, t`the self-attention of ${layer}`)),
      (x) => network(feedForward, x, changes, t`the feed-forward network of ${layer}`),
    ], changes.kept));
  });
  const ids = [BOS, ...written];
  const begun = ids.map(nameOf);
  let outputs = ids.map((id, i) => embedded(model, "decoder", id, i, begun[i], changes));
  model.decoderLayers.forEach(({ selfAttention, crossAttention, feedForward, norm1, norm2, norm3 }, number) => {
    const layer = t`decoder layer ${number + 1}`;
    const past = remembered(selfAttention, outputs, begun, (name) => t`“${name}” in front of ${layer}`);
    const memory = remembered(crossAttention, sequence, read, (name) => t`“${name}” behind the encoder`);
    outputs = outputs.map((x, i) => layerOf(x, [norm1, norm2, norm3], [
      (x) => noted(attended(selfAttention, x, past.slice(0, i + 1), changes, t`the self-attention of ${layer}`)),
      (x) => noted(attended(crossAttention, x, memory, changes, t`the cross-attention of ${layer}`)),
      (x) => network(feedForward, x, changes, t`the feed-forward network of ${layer}`),
    ]));
  });
  return { ...outputs.at(-1), attentions };
}

/* What an account begins with: a score, if a `weight` such as "cross.2.7.3.1" is asked for,
   the second word of the memory for the fourth token and head 8; else a logit. */
function root({ id, other, weight }, last, model, nameOf) {
  if (weight) {
    const [kind, layer, head, token, word] = weight.split(".");
    const node = last.attentions[`${kind}.${layer}`]?.[token]?.score(+head, +word);
    if (!node) throw new Error(t`there is no weight ${weight}`);
    return [node, ONE];
  }
  const width = last.value.length;
  const row = (of) => model.embedding.subarray(of * width, (of + 1) * width);
  let g = Float64Array.from(row(id));
  if (other !== null) g = g.map((value, i) => value - row(other)[i]);
  const title = other === null
    ? t`the logit of “${nameOf(id)}”`
    : t`the lead of “${nameOf(id)}” over “${nameOf(other)}”`;
  return [{ ...last, title, code: "const logits = linear({ weight: this.embedding }, x);" }, g];
}

/* The account of a logit or of a score, or of a term in it.
     asked   id, whose logit it is, and other, an id whose logit is taken away, or null; or a
             weight, whose score it is; and keys, the terms opened one after the other
     last    what `lastVector` returns
   Returns the trail that leads there, a list of { title, value }; the terms, the largest
   first; how many others there are and their sum; other views of the number; what is
   missing to the value; and the line of code. */
export function account(asked, last, model, nameOf) {
  let [node, g] = root(asked, last, model, nameOf);
  const trail = [{ title: node.title, value: dot(g, node.value) }];
  for (const key of asked.keys) {
    const term = node.terms(g).flatMap((each) => [each, each.why ?? []].flat())
      .concat(node.views ?? []).find((each) => each.key === key);
    if (!term?.opens) throw new Error(t`${node.title} has no account of ${key}`);
    [node, g] = term.opens;
    trail.push({ title: node.title, value: dot(g, node.value) });
  }
  const terms = node.terms(g).sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
  const sum = (some) => some.reduce((total, { share }) => total + share, 0);
  const rest = terms.slice(LISTED);
  return {
    trail,
    terms: terms.slice(0, LISTED).map(({ key, title, share, opens, why }) =>
      ({ key, title, share, opens: Boolean(opens), why: why?.key ?? null, asks: why?.asks })),
    others: rest.length,
    rest: sum(rest),
    views: (node.views ?? []).map(({ key, title }) => ({ key, title })),
    missing: trail.at(-1).value - sum(terms),
    code: node.code,
  };
}
