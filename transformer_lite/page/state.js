/* What the page knows, as one object. Parts of the page watch its fields, and draw
   themselves again when one of them changes.

     model     what is known of the model: all but its weights and its vocabulary
     loading   whether the worker is still without it
     failure   why there is no model or no answer; "" if there is
     settings  what the reader can change, and a link keeps
     busy      whether an answer is awaited
     answer    what the worker has said of the newest settings so far: the sentence's
               pieces, the steps of the search, and at last the result
     result    the newest answer that was complete: it stays while the next one comes
     pinned    a result that the newest one is compared with, or null
     place     the place in the output whose candidates are shown
     explored  what the attention explorer shows
     asked     the number whose account is shown, or null: { place, id, other, weight, keys },
               see account.js
     account   what the worker has said of it */

export const NO_ANSWER = { pieces: [], unknown: [], search: [], result: null, done: true };

/* The settings of somebody who has changed nothing. */
export const unchanged = (model) => ({
  text: model.example,
  beamSize: model.search.beam_size,
  alpha: model.search.alpha,
  temperature: 1,
  seed: null, // of the drawing; null searches
  forced: {}, // the pieces that the reader has chosen, by their places
  positions: true,
  scaled: true,
  kept: 1,
  off: [], // heads
  units: {}, // the values of the units that are set, by their names: "decoder.2.260"
  other: "", // another sentence, and the heads that read it instead
  borrowed: [],
});

export const numSettingsChanged = (before, now) =>
  Object.keys(now).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(now[name])).length;

export class Store {
  watchers = [];

  constructor(model) {
    const last = model.config.num_layers - 1;
    this.state = {
      model, loading: true, failure: "", settings: unchanged(model), busy: true,
      answer: NO_ANSWER, result: null, pinned: null, place: 0, asked: null, account: null,
      explored: { map: 2, layer: last, head: 0, query: null },
    };
  }

  /* Calls `render` with the state now, and whenever one of these fields has changed. */
  watch(fields, render) {
    this.watchers.push({ fields, render });
    render(this.state);
  }

  update(changes) {
    const before = this.state;
    this.state = { ...before, ...changes };
    for (const { fields, render } of this.watchers) {
      if (fields.some((field) => field in changes && changes[field] !== before[field])) {
        render(this.state);
      }
    }
  }
}
