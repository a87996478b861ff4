// Parts of pages: links, badges, tables, errors.

import {h} from './dom.js';
import {age, clock, ms, plural, short} from './format.js';
import {seg, token} from './api.js';

export const paths = {
  job: (id, ns, tab) => '/ui/jobs/' + seg(id) + '@' + seg(ns || 'default') + (tab ? '/' + tab : ''),
  alloc: (id, tab) => '/ui/allocations/' + seg(id) + (tab ? '/' + tab : ''),
  node: (id) => '/ui/clients/' + seg(id),
  volume: (id, ns, tab) => '/ui/storage/volumes/csi/' + seg(id) + '@' + seg(ns || 'default') + (tab ? '/' + tab : ''),
  hostVolume: (id, ns) => '/ui/storage/volumes/host/' + seg(id) + '@' + seg(ns || 'default'),
  plugin: (id) => '/ui/storage/plugins/' + seg(id),
  evaluation: (id) => '/ui/evaluations/' + seg(id),
  deployment: (id) => '/ui/deployments/' + seg(id),
  variable: (path, ns) => '/ui/variables/var/' + seg(path) + '@' + seg(ns || 'default'),
};

// named splits "id@namespace" with an optional tab behind it. Ids may contain @ and /, namespaces do not.
export function named(rest, tabs) {
  const m = /^(.*)@([^@/]+?)(?:\/([a-z]+))?$/.exec(rest);
  if (m && (!m[3] || tabs.includes(m[3]))) return {id: decode(m[1]), ns: decode(m[2]), tab: m[3] || ''};
  return {id: decode(rest), ns: 'default', tab: ''};
}

export function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const link = (to, ...kids) => h('a', {href: to}, ...kids);
export const allocLink = (id) => (id ? h('a', {href: paths.alloc(id), class: 'id', title: id}, short(id)) : '');
export const evalLink = (id) => (id ? h('a', {href: paths.evaluation(id), class: 'id', title: id}, short(id)) : '');
export const nodeLink = (id, name) => (id ? h('a', {href: paths.node(id), title: id, class: name ? '' : 'id'}, name || short(id)) : '');
export const time = (t) => (ms(t) ? h('time', {datetime: clock(t), title: clock(t)}, age(t)) : '');

// Classes of statuses: what works, what is on its way, what waits for something, what failed.
const tone = {
  running: 'ok', ready: 'ok', complete: 'ok', successful: 'ok', healthy: 'ok', alive: 'ok', available: 'ok', eligible: 'ok', attached: 'ok', run: 'ok', done: 'ok', leader: 'ok', schedulable: 'ok',
  pending: 'busy', starting: 'busy', initializing: 'busy', claiming: 'busy', releasing: 'busy', blocked: 'warn', queued: 'warn', paused: 'warn', draining: 'warn', unknown: 'warn', warning: 'warn',
  ineligible: 'warn', disconnected: 'warn', failed: 'bad', lost: 'bad', down: 'bad', unhealthy: 'bad', error: 'bad', dead: 'off', canceled: 'off', cancelled: 'off', stop: 'off', stopped: 'off', left: 'off', info: 'info',
};

export const badge = (text, kind) => (text ? h('span', {class: 'badge ' + (kind || tone[text] || 'plain')}, text) : '');

// bar shows counts as parts of a line, with the numbers as its description.
export function bar(parts) {
  const all = parts.filter((p) => p.n > 0);
  const total = all.reduce((sum, p) => sum + p.n, 0);
  const text = all.map((p) => p.n + ' ' + p.name).join(', ') || 'none';
  return h('span', {class: 'bar', role: 'img', 'aria-label': text, title: text}, all.map((p) => h('i', {key: p.name, class: p.kind, style: {'flex-grow': p.n / total}})));
}

const summaryParts = [['Running', 'ok'], ['Starting', 'busy'], ['Queued', 'warn'], ['Unknown', 'warn'], ['Lost', 'bad'], ['Failed', 'bad'], ['Complete', 'off']];

// summaryBar shows the allocations of a job by status.
export function summaryBar(summary) {
  const sum = (k) => Object.values(summary?.Summary || {}).reduce((n, g) => n + (g[k] || 0), 0);
  const kids = summary?.Children || {};
  if (kids.Pending || kids.Running || kids.Dead) return bar([{name: 'running', n: kids.Running, kind: 'ok'}, {name: 'pending', n: kids.Pending, kind: 'busy'}, {name: 'dead', n: kids.Dead, kind: 'off'}]);
  return bar(summaryParts.map(([k, kind]) => ({name: k.toLowerCase(), n: sum(k), kind})));
}

// gauge shows a share of a whole.
export function gauge(used, whole, text) {
  const share = whole > 0 ? Math.min(1, used / whole) : 0;
  return h('span', {class: 'gauge', title: text}, h('i', {class: share > 0.9 ? 'bad' : share > 0.7 ? 'warn' : 'ok', style: {width: (share * 100).toFixed(1) + '%'}}), h('b', {}, text));
}

// table makes a table; a column that begins with # has numbers. rows are {key, cells, class}.
export function table(label, head, rows, empty) {
  if (!rows.length) return h('p', {class: 'empty'}, empty || 'None.');
  const number = head.map((t) => t.startsWith('#'));
  return h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label}, h('table', {},
    h('thead', {}, h('tr', {}, head.map((t, i) => h('th', {scope: 'col', class: number[i] ? 'num' : ''}, t ? t.replace('#', '') : h('span', {class: 'unseen'}, 'Actions'))))),
    h('tbody', {}, rows.map((r) => h('tr', {key: r.key, class: r.class}, r.cells.map((c, i) => h('td', {class: number[i] ? 'num' : ''}, c)))))));
}

export const facts = (pairs) => h('dl', {class: 'facts'}, pairs.filter((p) => p && !(Array.isArray(p[1]) && !p[1].length) && p[1] !== '' && p[1] !== undefined && p[1] !== null).map(([k, v]) => h('div', {key: k}, h('dt', {}, k), h('dd', {}, v))));

export const card = (title, body, tools) => h('section', {class: 'card', key: 'card ' + title, 'aria-label': title}, h('header', {}, h('h2', {}, title), h('div', {class: 'tools'}, tools || null)), body);

export const button = (text, onclick, props) => h('button', {type: 'button', ...props, onclick}, text);

// tabs are links to parts of a page; list is [[tab, text]].
export const tabs = (list, now, to) => h('nav', {class: 'tabs', 'aria-label': 'Parts of this page'}, list.map(([t, text]) => h('a', {key: t, href: to(t), 'aria-current': t === now ? 'page' : null}, text)));

export const crumbs = (...items) => h('p', {class: 'crumbs'}, items.filter(Boolean).map((x, i) => [i ? ' / ' : '', x]));

// command is a command to copy.
export function command(text) {
  return h('span', {class: 'command'}, h('code', {}, text), button('Copy', (e) => {
    const b = e.currentTarget;
    navigator.clipboard?.writeText(text).then(() => say(b, 'Copied'), () => say(b, 'Not permitted'));
    if (!navigator.clipboard) say(b, 'Select and copy');
  }, {class: 'small', 'aria-label': 'Copy the command ' + text}));
}

function say(b, text) {
  b.textContent = text;
  setTimeout(() => (b.textContent = 'Copy'), 1500);
}

// problem explains a failed request and the next step.
export function problem(err) {
  if (!err) return null;
  const next = err.status === 403 || err.status === 401
    ? [token.get() ? 'Your token does not permit this. ' : 'This cluster has access control. ', link('/ui/settings/tokens', token.get() ? 'Use another token' : 'Sign in with a token')]
    : err.status === 0 ? 'The page tries again by itself.' : null;
  return h('div', {class: 'problem', role: 'alert'}, h('p', {}, err.message), next && h('p', {}, next));
}

// source shows a source of live data: its error, that it loads, or its content.
export function source(live, name, body) {
  const data = live.data(name);
  const err = live.error(name);
  if (data === undefined || data === null) return err ? problem(err) : h('p', {class: 'empty', 'aria-busy': 'true'}, live.loading(name) ? 'Loading' : 'None.');
  return [err && err.status !== 0 ? problem(err) : null, body(data)];
}

// Pager keeps the page of a list that the server cuts.
export class Pager {
  constructor(size, reload) {
    Object.assign(this, {size, reload, before: [], token: ''});
  }
  params() { return {per_page: this.size, next_token: this.token}; }
  reset() { this.before = []; this.token = ''; }
  view(next) {
    if (!next && !this.before.length) return null;
    return h('nav', {class: 'pager', 'aria-label': 'Pages'},
      button('Previous', () => { this.token = this.before.pop() || ''; this.reload(); }, {disabled: !this.before.length}),
      h('span', {}, 'Page ' + (this.before.length + 1)),
      button('Next', () => { this.before.push(this.token); this.token = next; this.reload(); }, {disabled: !next}));
  }
}

// reasons lists why the scheduler did not place allocations, of FailedTGAllocs.
export function reasons(failed) {
  return Object.entries(failed || {}).map(([group, m]) => h('div', {class: 'reason', key: group},
    h('p', {}, 'Group ', h('b', {}, group), ': ', plural(1 + (m.CoalescedFailures || 0), 'allocation') + ' not placed; ', plural(m.NodesEvaluated || 0, 'node') + ' evaluated, ' + (m.NodesFiltered || 0) + ' filtered out, ' + (m.NodesExhausted || 0) + ' full'),
    h('ul', {}, [m.ConstraintFiltered, m.ClassFiltered, m.DimensionExhausted, m.ClassExhausted].flatMap((x) => Object.entries(x || {})).map(([why, n]) => h('li', {key: why}, why, ' ', h('span', {class: 'dim'}, 'on ' + plural(n, 'node')))),
      (m.QuotaExhausted || []).map((q) => h('li', {key: q}, 'quota: ' + q)),
      !m.NodesEvaluated && h('li', {key: 'none'}, 'no node is in the datacenters and the node pool of the job'))));
}
