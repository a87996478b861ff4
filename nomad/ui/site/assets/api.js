// Requests to the public HTTP API of the agent that served the page.

import {ms, now, setClock} from './format.js';

const store = (name) => ({
  get: () => sessionStorage.getItem(name) || '',
  set: (v) => (v ? sessionStorage.setItem(name, v) : sessionStorage.removeItem(name)),
});
export const token = {...store('token'), set(v) { store('token').set(v); session.ended = false; }};
export const namespace = store('namespace');
export const region = store('region');

// Failure is a request that failed. Status 0 means that the agent was not reached.
export class Failure extends Error {
  constructor(status, text, path) {
    super(text || 'HTTP status ' + status);
    Object.assign(this, {status, path});
  }
}

// connection reports whether the last request reached the agent.
export const connection = {
  ok: true, since: 0, listeners: new Set(),
  set(ok) {
    if (ok === this.ok) return;
    this.ok = ok;
    this.since = Date.now();
    for (const f of this.listeners) f();
  },
};

// session reports whether the token has expired or was deleted while the page was open. No more data is asked for then.
export const session = {
  ended: false, asked: -5000, timer: 0,
  // until has the token checked when it expires.
  until(time) {
    clearTimeout(this.timer);
    const left = ms(time) - now();
    if (!ms(time) || left > 2 ** 31 - 5000) return;
    this.timer = setTimeout(() => {
      this.asked = -5000;
      this.check();
    }, Math.max(left, 0) + 1000);
  },
  // check finds out after a refusal whether the token lacks the right or was deleted; at most every 5 s.
  async check() {
    const asked = token.get();
    if (this.ended || !asked || performance.now() - this.asked < 5000) return;
    this.asked = performance.now();
    const res = await fetch(url('/v1/acl/token/self'), {headers: headers(), cache: 'no-store'}).catch(() => null);
    if (![401, 403, 404].includes(res?.status) || token.get() !== asked) return;
    this.ended = true;
    for (const f of connection.listeners) f();
  },
};

export const seg = encodeURIComponent;

// url is an address of the API. Empty parameters are left out; a list repeats its parameter.
export function url(path, params) {
  const q = new URLSearchParams();
  const all = {...params};
  if (region.get() && !('region' in all)) all.region = region.get();
  for (const [k, v] of Object.entries(all)) {
    if (Array.isArray(v)) v.forEach((x) => q.append(k, x));
    else if (v !== undefined && v !== null && v !== '') q.set(k, v);
  }
  const text = q.toString();
  return path + (text ? '?' + text : '');
}

export function headers() {
  return token.get() ? {'X-Nomad-Token': token.get()} : {};
}

// request makes one request and returns {data, index, next}. opts: params, body (sent as JSON), signal, raw (the response),
// anonymous (without the token).
export async function request(method, path, opts = {}) {
  let res;
  for (let again = method === 'GET'; !res; again = false) { // a read is repeated once: browsers end requests when the network changes
    try {
      res = await fetch(url(path, opts.params), {
        method, signal: opts.signal, cache: 'no-store', headers: opts.anonymous ? {} : headers(), body: opts.body === undefined ? undefined : JSON.stringify(opts.body),
      });
    } catch (err) {
      if (err.name === 'AbortError') throw err;
      if (again) continue;
      connection.set(false);
      throw new Failure(0, method === 'GET' ? 'The agent cannot be reached' : 'The agent cannot be reached: look whether the change was made before you try again', path);
    }
  }
  connection.set(true);
  setClock(res.headers.get('Date'));
  if (res.status === 403 && !opts.anonymous) session.check();
  if (!res.ok) throw new Failure(res.status, (await res.text()).slice(0, 4000), path);
  if (opts.raw) return res;
  const text = await res.text();
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    throw new Failure(0, 'The response of ' + path + ' is not JSON', path);
  }
  return {data, index: Number(res.headers.get('X-Nomad-Index') || 0), next: res.headers.get('X-Nomad-NextToken') || ''};
}

export const get = (path, params, signal) => request('GET', path, {params, signal});
export const put = (path, body, params) => request('PUT', path, {params, body});
export const del = (path, params) => request('DELETE', path, {params});

// quote writes a text into a filter expression, whose strings know no escapes.
export function quote(text) {
  return /["\\]/.test(text) ? '`' + text.replaceAll('`', '') + '`' : '"' + text + '"';
}

// chosen is the namespace of lists: "*" is all.
export const chosen = () => namespace.get() || '*';
