// Live data: what a page shows is loaded again when the event stream reports a change of it. Without the stream, each
// source waits for its next index with a blocking query.

import {connection, Failure, get, headers, session, url} from './api.js';

const pauseMin = 400; // between two loads of one source, in ms
const retryMin = 1000;
const retryMax = 30000;

// sleep ends early when the signal is aborted.
export function sleep(ms, signal) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(t);
      signal?.removeEventListener('abort', end);
      done();
    };
    const t = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}

// lines reads a response line by line.
export async function lines(res, each) {
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n');
    rest = parts.pop();
    for (const p of parts) if (p.trim()) each(p);
  }
}

// Live holds the sources of one page until it is closed.
export class Live {
  constructor(changed) {
    this.changed = changed;
    this.sources = new Map();
    this.stop = new AbortController();
    this.mode = 'starting';
    document.addEventListener('visibilitychange', this.onVisible = () => this.visible());
  }

  // load adds or replaces a source: a path with parameters and the topics that change it. The result is in
  // data(name), its error in error(name). ready is resolved after the first load.
  load(name, path, params = {}, topics = []) {
    const old = this.sources.get(name);
    const s = {name, path, params, topics, data: old?.path === path ? old.data : undefined, index: 0, next: '', error: null, busy: false, again: false, took: 0};
    s.dropped = false;
    if (old) old.dropped = true;
    this.sources.set(name, s);
    s.ready = this.fetch(s);
    if (this.mode === 'polling') this.poll(s);
    if (this.mode === 'streaming' && topics.some((t) => !this.followed.includes(t))) this.conn.abort(); // and again with these
    return s.ready;
  }

  data(name) { return this.sources.get(name)?.data; }
  error(name) { return this.sources.get(name)?.error; }
  next(name) { return this.sources.get(name)?.next || ''; }
  loading(name) { const s = this.sources.get(name); return !!s && s.data === undefined && !s.error; }

  async fetch(s, wait) {
    if (session.ended) return;
    if (s.busy && !wait) {
      s.again = true;
      return;
    }
    s.busy = true;
    const begun = performance.now();
    try {
      const out = await get(s.path, wait ? {...s.params, ...wait} : s.params, this.stop.signal);
      if (!s.dropped) Object.assign(s, {data: out.data, index: out.index, next: out.next, error: null});
    } catch (err) {
      if (err.name === 'AbortError') return;
      if (!s.dropped) s.error = err;
      if (err.status === 404) s.data = undefined;
    } finally {
      s.busy = false;
    }
    s.took = performance.now() - begun;
    if (s.dropped || this.stop.signal.aborted) return;
    this.changed();
    if (s.again) {
      s.again = false;
      await sleep(Math.max(pauseMin, 3 * s.took), this.stop.signal);
      if (!s.dropped && !this.stop.signal.aborted) this.fetch(s);
    }
  }

  // refresh loads all sources, or those of the names, now.
  refresh(...names) {
    return Promise.all([...this.sources.values()].filter((s) => !names.length || names.includes(s.name)).map((s) => this.fetch(s)));
  }

  touch(event) {
    for (const s of this.sources.values()) {
      if (s.topics.some((t) => matches(t, event))) {
        if (s.timer || event.Index <= s.index) continue;
        s.timer = setTimeout(() => ((s.timer = 0), s.dropped || this.fetch(s)), Math.max(pauseMin, 3 * s.took));
      }
    }
  }

  // follow starts to follow changes when all sources are loaded once.
  async follow() {
    await Promise.all([...this.sources.values()].map((s) => s.ready));
    if (!this.stop.signal.aborted) this.stream();
  }

  visible() {
    if (document.hidden) this.conn?.abort();
    else if (this.mode === 'streaming' || this.mode === 'hidden') this.refresh().then(() => this.stream());
  }

  topics() {
    return [...new Set([...this.sources.values()].flatMap((s) => s.topics))];
  }

  // stream reads events until the page is closed or hidden; a hidden page holds no connection.
  async stream() {
    if (this.stop.signal.aborted || this.running) return;
    this.running = true;
    let pause = retryMin;
    for (let first = true; !this.stop.signal.aborted && !document.hidden && !session.ended; first = false) {
      if (!this.topics().length) break;
      this.conn = new AbortController();
      const end = () => this.conn.abort();
      this.stop.signal.addEventListener('abort', end, {once: true});
      try {
        if (!first) await this.refresh();
        const index = Math.min(...[...this.sources.values()].filter((s) => s.topics.length).map((s) => s.index || Infinity));
        this.followed = this.topics();
        const params = {topic: this.followed, namespace: '*', index: Number.isFinite(index) ? index : ''};
        const res = await fetch(url('/v1/event/stream', params), {signal: this.conn.signal, headers: headers(), cache: 'no-store'});
        if (res.status === 403) await session.check();
        if (!res.ok) throw new Failure(res.status, await res.text());
        connection.set(true);
        this.mode = 'streaming';
        await lines(res, (line) => {
          pause = retryMin;
          const batch = JSON.parse(line);
          for (const e of batch.Events || []) this.touch(e);
        });
      } catch (err) {
        if (err.status >= 400 && err.status < 500 && !this.stop.signal.aborted) {
          this.mode = 'polling';
          for (const s of this.sources.values()) this.poll(s);
          break;
        }
        if (err.name !== 'AbortError') connection.set(false);
      }
      this.stop.signal.removeEventListener('abort', end);
      if (document.hidden) this.mode = 'hidden';
      else await sleep(pause * (0.75 + Math.random() / 2), this.stop.signal);
      pause = Math.min(retryMax, pause * 2);
    }
    this.running = false;
  }

  // resume follows changes again after the user has signed in.
  async resume() {
    await this.refresh();
    if (this.mode === 'polling') for (const s of this.sources.values()) this.poll(s);
    else this.stream();
  }

  // poll waits for changes of one source with blocking queries.
  async poll(s) {
    if (s.polled) return;
    s.polled = true;
    let pause = retryMin;
    await s.ready;
    while (!s.dropped && !this.stop.signal.aborted && !session.ended) {
      if (document.hidden || !s.topics.length) {
        await sleep(2000, this.stop.signal);
        continue;
      }
      await this.fetch(s, s.index && !s.error ? {index: s.index, wait: '30s'} : {});
      pause = s.error ? Math.min(retryMax, pause * 2) : retryMin;
      await sleep(pause, this.stop.signal);
    }
    s.polled = false;
  }

  close() {
    this.stop.abort();
    document.removeEventListener('visibilitychange', this.onVisible);
    for (const s of this.sources.values()) {
      clearTimeout(s.timer);
      s.dropped = true;
    }
    this.sources.clear();
  }
}

function matches(topic, event) {
  const i = topic.indexOf(':');
  const kind = i < 0 ? topic : topic.slice(0, i);
  if (kind !== event.Topic) return false;
  const key = i < 0 ? '' : topic.slice(i + 1);
  return !key || key === event.Key || (event.FilterKeys || []).includes(key);
}
