/* The Transformer of "Attention Is All You Need", without a library.

   It computes what transformer_lite/model.py and transformer_lite/search.py compute, and
   has the same names. A vector is a Float32Array. A sequence is an array of vectors, one
   for each token. A matrix is stored row after row, as PyTorch stores it.

   Paper: Sections 3 and 6.1
   Tests: tests/package/page/test_transformer_js.py */

export const BOS = 1;
export const EOS = 2;

/* What an experiment changes. Nothing is changed by default.
     positions  false leaves the positional encoding out (Section 3.5)
     scaled     false leaves the division by √d_k out (Section 3.2.1)
     kept       the part of x that the encoder adds to a sub-layer's output (Section 3.1)
     off        the attention heads that give zeros, named such as "cross.0.3": the
                fourth head of the first layer's cross-attention
     borrowed   for the name of a head the keys and values that it reads instead
     units      for a network, such as "decoder.2", the units that are set: [unit, value]
     watch      called with the place, the head and the weights of every softmax
     remember   called with the place and the keys and values of every attention to the
                sentence */
export const UNCHANGED = {
  positions: true, scaled: true, kept: 1, off: new Set(), borrowed: new Map(),
  units: new Map(), watch: null, remember: null,
};

/* y = Wx + b, as torch.nn.Linear computes it. */
export function linear({ weight, bias }, x) {
  const columns = x.length;
  const y = new Float32Array(weight.length / columns);
  for (let row = 0, at = 0; row < y.length; row++) {
    let sum = bias ? bias[row] : 0;
    for (let column = 0; column < columns; column++) sum += weight[at++] * x[column];
    y[row] = sum;
  }
  return y;
}

export function add(x, y) {
  return x.map((value, i) => value + y[i]);
}

export function dot(x, y) {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}

/* exp(x_i) / Σ exp(x_j). The largest is subtracted first, so that no exp overflows. */
export function softmax(scores) {
  const largest = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / sum);
}

export function logSoftmax(scores) {
  const largest = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = scores.reduce((total, score) => total + Math.exp(score - largest), 0);
  const normalizer = largest + Math.log(sum);
  return scores.map((score) => score - normalizer);
}

/* Section 3.1: mean 0 and variance 1 over the vector, then a learned scale and shift. */
export function layerNorm({ weight, bias }, x) {
  const mean = x.reduce((a, b) => a + b, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  const scale = 1 / Math.sqrt(variance + 1e-5);
  return x.map((value, i) => (value - mean) * scale * weight[i] + bias[i]);
}

/* LayerNorm(x + Sublayer(x)), the end of every sub-layer (Section 3.1). */
export function addAndNorm(norm, x, sublayerOutput) {
  return layerNorm(norm, add(x, sublayerOutput));
}

/* Equation 1 for one query: softmax(q·Kᵀ / √d_k) V. */
export function scaledDotProductAttention(query, keys, values, scaled = true) {
  const divisor = scaled ? Math.sqrt(query.length) : 1;
  const weights = softmax(keys.map((key) => dot(query, key) / divisor));
  const output = new Float32Array(values[0].length);
  values.forEach((value, j) => {
    for (let i = 0; i < output.length; i++) output[i] += weights[j] * value[i];
  });
  return { output, weights };
}

/* Section 3.2.2. No mask is needed: `memory` holds only what the query may attend to. */
export class MultiHeadAttention {
  constructor(parameters, name, heads, place) {
    for (const matrix of ["w_q", "w_k", "w_v", "w_o"]) {
      this[matrix] = part(parameters, `${name}.${matrix}`);
    }
    this.heads = heads;
    this.place = place;
  }

  /* Projects a vector of the memory once, so that many queries can share it. */
  keyAndValue(x) {
    return {
      key: this.split(linear(this.w_k, x)),
      value: this.split(linear(this.w_v, x)),
    };
  }

  /* What the query x gathers from the memory, a list of keys and values. */
  attend(x, memory, changes) {
    const queries = this.split(linear(this.w_q, x));
    const outputs = queries.map((query, head) => {
      const name = `${this.place}.${head}`;
      const read = changes.borrowed.get(name) ?? memory;
      const keys = read.map(({ key }) => key[head]);
      const values = read.map(({ value }) => value[head]);
      const { output, weights } = scaledDotProductAttention(
        query, keys, values, changes.scaled
      );
      changes.watch?.(this.place, head, weights);
      return changes.off.has(name) ? output.fill(0) : output;
    });
    return linear(this.w_o, concatenate(outputs));
  }

  /* The part of each head. */
  split(x) {
    const width = x.length / this.heads;
    return Array.from({ length: this.heads }, (_, head) =>
      x.subarray(head * width, (head + 1) * width)
    );
  }
}

function concatenate(vectors) {
  const whole = new Float32Array(vectors.length * vectors[0].length);
  vectors.forEach((vector, i) => whole.set(vector, i * vector.length));
  return whole;
}

/* Equation 2: max(0, xW₁ + b₁)W₂ + b₂. */
export class FeedForward {
  constructor(parameters, name, place) {
    this.w_1 = part(parameters, `${name}.w_1`);
    this.w_2 = part(parameters, `${name}.w_2`);
    this.place = place;
  }

  forward(x, changes) {
    return linear(this.w_2, this.units(x, changes));
  }

  units(x, changes) {
    const values = linear(this.w_1, x).map((value) => Math.max(0, value));
    for (const [unit, value] of changes.units.get(this.place) ?? []) values[unit] = value;
    return values;
  }
}

/* Self-attention, then the feed-forward network (Figure 1, left). */
class EncoderLayer {
  constructor(parameters, name, heads, place) {
    this.selfAttention = new MultiHeadAttention(
      parameters, `${name}.self_attention`, heads, place
    );
    this.feedForward = new FeedForward(parameters, `${name}.feed_forward`, place);
    this.norm1 = part(parameters, `${name}.after_self_attention.norm`);
    this.norm2 = part(parameters, `${name}.after_feed_forward.norm`);
  }

  forward(sequence, changes) {
    const memory = sequence.map((x) => this.selfAttention.keyAndValue(x));
    changes.remember?.(this.selfAttention.place, memory);
    const kept = (x) => x.map((value) => changes.kept * value);
    return sequence.map((x) => {
      x = addAndNorm(this.norm1, kept(x), this.selfAttention.attend(x, memory, changes));
      return addAndNorm(this.norm2, kept(x), this.feedForward.forward(x, changes));
    });
  }
}

/* Masked self-attention, cross-attention, feed-forward (Figure 1, right). */
class DecoderLayer {
  constructor(parameters, name, heads, layer) {
    this.selfAttention = new MultiHeadAttention(
      parameters, `${name}.self_attention`, heads, `decoder.${layer}`
    );
    this.crossAttention = new MultiHeadAttention(
      parameters, `${name}.cross_attention`, heads, `cross.${layer}`
    );
    this.feedForward = new FeedForward(
      parameters, `${name}.feed_forward`, `decoder.${layer}`
    );
    this.norm1 = part(parameters, `${name}.after_self_attention.norm`);
    this.norm2 = part(parameters, `${name}.after_cross_attention.norm`);
    this.norm3 = part(parameters, `${name}.after_feed_forward.norm`);
  }

  /* The newest position alone. The past cannot see the future because the future is not
     there yet, so there is no causal mask. Returns the vector and the longer past. */
  step(x, past, memory, changes) {
    past = [...past, this.selfAttention.keyAndValue(x)];
    x = addAndNorm(this.norm1, x, this.selfAttention.attend(x, past, changes));
    x = addAndNorm(this.norm2, x, this.crossAttention.attend(x, memory, changes));
    return [addAndNorm(this.norm3, x, this.feedForward.forward(x, changes)), past];
  }
}

/* PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), and PE(pos, 2i+1) is its cosine
   (Section 3.5). */
export function sinusoidalEncoding(position, width) {
  return Float32Array.from({ length: width }, (_, channel) => {
    const angle = position / 10000 ** ((channel - (channel % 2)) / width);
    return channel % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/* The weight and, if it has one, the bias of a linear map or of a LayerNorm. */
function part(parameters, name) {
  if (!parameters[`${name}.weight`]) throw new Error(`there is no ${name}.weight`);
  return { weight: parameters[`${name}.weight`], bias: parameters[`${name}.bias`] };
}

/* The encoder–decoder model of Figure 1.
     config      as in a run's config.json: num_layers, num_heads, d_model, max_len, …
     parameters  a Float32Array for each name that the PyTorch model has */
export class Transformer {
  constructor(config, parameters) {
    this.config = config;
    this.embedding = part(parameters, "encoder.embedding").weight;
    this.learnedPositions = {
      encoder: parameters["encoder.positions.encoding"],
      decoder: parameters["decoder.positions.encoding"],
    };
    const layers = [...Array(config.num_layers).keys()];
    const heads = config.num_heads;
    this.encoderLayers = layers.map(
      (i) => new EncoderLayer(parameters, `encoder.layers.${i}`, heads, `encoder.${i}`)
    );
    this.decoderLayers = layers.map(
      (i) => new DecoderLayer(parameters, `decoder.layers.${i}`, heads, i)
    );
  }

  /* The token's row of the matrix times √d_model, plus its position (Section 3.4). */
  embed(side, id, position, changes) {
    const width = this.config.d_model;
    const row = this.embedding.subarray(id * width, (id + 1) * width);
    const embedded = row.map((value) => value * Math.sqrt(width));
    if (!changes.positions) return embedded;
    const learned = this.learnedPositions[side];
    const encoding = learned
      ? learned.subarray(position * width, (position + 1) * width)
      : sinusoidalEncoding(position, width);
    return add(embedded, encoding);
  }

  /* A vector for each source token that knows its whole sentence. */
  encode(ids, changes = UNCHANGED) {
    const embedded = ids.map((id, i) => this.embed("encoder", id, i, changes));
    return this.encoderLayers.reduce(
      (sequence, layer) => layer.forward(sequence, changes), embedded
    );
  }

  /* The decoder's state before the first token. `ids` end with EOS. */
  start(ids, changes = UNCHANGED) {
    const encoded = this.encode(ids, changes);
    const memory = this.decoderLayers.map(({ crossAttention }) => {
      const ofLayer = encoded.map((x) => crossAttention.keyAndValue(x));
      changes.remember?.(crossAttention.place, ofLayer);
      return ofLayer;
    });
    return { memory, past: memory.map(() => []), length: 0, changes };
  }

  /* Scores every token that may follow `id`. Returns the scores and the next state; the
     given state stays as it is, so that beams can share it. */
  step(id, state) {
    let x = this.embed("decoder", id, state.length, state.changes);
    const past = this.decoderLayers.map((layer, i) => {
      let longer;
      [x, longer] = layer.step(x, state.past[i], state.memory[i], state.changes);
      return longer;
    });
    const logits = linear({ weight: this.embedding }, x);
    return { logits, state: { ...state, past, length: state.length + 1 } };
  }
}

/* ((5 + length) / 6)^α, the divisor of an output's log-probability (Section 6.1). */
export function lengthPenalty(length, alpha) {
  return ((5 + length) / 6) ** alpha;
}

/* The `number` best of a list of [score, …], the best first. */
export function best(candidates, number) {
  const sorted = [];
  for (const candidate of candidates) {
    if (sorted.length === number && candidate[0] <= sorted[number - 1][0]) continue;
    let place = sorted.length;
    while (place && sorted[place - 1][0] < candidate[0]) place--;
    sorted.splice(place, 0, candidate);
    if (sorted.length > number) sorted.pop();
  }
  return sorted;
}

/* Beam search, one step at a time (Section 6.1). It yields after each step, so that a
   page can draw it and stop it, and returns the output with the highest score.

   `options` are beamSize; alpha; maxLength, with EOS; temperature, by which the scores
   are divided; and forced, the ids that must stand at some places, by place. */
export function* beamSearch(model, state, options) {
  const { beamSize, alpha, maxLength, temperature = 1, forced = {} } = options;
  let beams = [{ ids: [], logProb: 0, state }];
  let output = { ids: [], logProb: -Infinity, score: -Infinity };
  let finished = 0;
  for (let length = 1; ; length++) {
    const only = length === maxLength ? EOS : forced[length - 1];
    const candidates = beams.flatMap((beam, parent) => {
      const next = model.step(beam.ids.at(-1) ?? BOS, beam.state);
      beam.state = next.state;
      const scores = logSoftmax(next.logits.map((logit) => logit / temperature));
      const tokens = only === undefined ? [...scores.keys()] : [only];
      const extended = tokens.map((id) => [beam.logProb + scores[id], parent, id]);
      return best(extended, 2 * beamSize);
    });
    const top = best(candidates, 2 * beamSize);

    // Of the best `beamSize`, those that end are finished outputs.
    const ended = top.slice(0, beamSize).filter(([, , id]) => id === EOS);
    finished += ended.length;
    for (const [logProb, parent] of ended) {
      const score = logProb / lengthPenalty(length, alpha);
      if (score > output.score) output = { ids: beams[parent].ids, logProb, score };
    }
    const goingOn = top.filter(([, , id]) => id !== EOS).slice(0, beamSize);
    yield { length, ended, goingOn, output };

    // No unfinished output gets likelier, and its best divisor is the largest one.
    const highest = goingOn.length && goingOn[0][0] / lengthPenalty(maxLength, alpha);
    if (!goingOn.length || finished >= beamSize || highest <= output.score) return output;
    beams = goingOn.map(([logProb, parent, id]) => ({
      ids: [...beams[parent].ids, id], logProb, state: beams[parent].state,
    }));
  }
}

/* Draws each token by its probability instead of searching. `random` returns a number
   from 0 to 1. */
export function* sample(model, state, options, random) {
  const { maxLength, temperature = 1, forced = {} } = options;
  const output = { ids: [], logProb: 0 };
  for (let length = 1; ; length++) {
    const next = model.step(output.ids.at(-1) ?? BOS, state);
    state = next.state;
    const scores = logSoftmax(next.logits.map((logit) => logit / temperature));
    let id = length === maxLength ? EOS : forced[length - 1];
    if (id === undefined) {
      let left = random();
      id = scores.findIndex((score) => (left -= Math.exp(score)) < 0);
      if (id < 0) id = EOS; // the probabilities' sum was rounded down
    }
    output.logProb += scores[id];
    output.score = output.logProb;
    const drawn = [[output.logProb, 0, id]];
    yield id === EOS
      ? { length, ended: drawn, goingOn: [], output }
      : { length, ended: [], goingOn: drawn, output };
    if (id === EOS) return output;
    output.ids = [...output.ids, id];
  }
}
