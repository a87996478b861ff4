// Search everywhere: names that contain a text, of all kinds that the token permits.

import {chosen, put} from './api.js';
import {h, patch} from './dom.js';
import {short} from './format.js';
import {paths} from './parts.js';

const kinds = {
  jobs: ['Jobs', (m) => [m.ID, m.Scope[0], paths.job(m.Scope[1], m.Scope[0])]],
  volumes: ['Volumes', (m) => [m.ID, m.Scope[0], paths.volume(m.Scope.at(-1) || m.ID, m.Scope[0])]],
  host_volumes: ['Host volumes', (m) => [m.ID, m.Scope[0], paths.hostVolume(m.Scope[1], m.Scope[0])]],
  nodes: ['Nodes', (m) => [m.ID, short(m.Scope[0]), paths.node(m.Scope[0])]],
  allocs: ['Allocations', (m) => [m.ID, short(m.Scope[1]), paths.alloc(m.Scope[1])]],
  tasks: ['Tasks', (m) => [m.ID, m.Scope.slice(1, 3).join(' / '), paths.job(m.Scope[1], m.Scope[0])]],
  groups: ['Groups', (m) => [m.ID, m.Scope[1], paths.job(m.Scope[1], m.Scope[0])]],
  images: ['Images', (m) => [m.ID, m.Scope[1], paths.job(m.Scope[1], m.Scope[0])]],
  plugins: ['Plugins', (m) => [m.ID, '', paths.plugin(m.ID)]],
  vars: ['Variables', (m) => [m.ID, m.Scope?.[0], paths.variable(m.Scope?.[1] || m.ID, m.Scope?.[0])]],
  evals: ['Evaluations', (m) => [m.ID, m.Scope?.[0], paths.evaluation(m.ID)]],
  deployment: ['Deployments', (m) => [m.ID, m.Scope?.[0], paths.deployment(m.ID)]],
};

export function open(app) {
  if (document.querySelector('dialog.finder')) return;
  const d = document.createElement('dialog');
  d.className = 'finder';
  d.setAttribute('aria-label', 'Search');
  const s = {text: '', matches: null, error: '', more: false, at: 0, asked: 0};
  let timer = 0;

  const all = () => Object.entries(kinds).flatMap(([k, [title, to]]) => (s.matches?.[k] || []).slice(0, 8).map((m) => [title, ...to(m)]));
  const visit = (to) => {
    d.close();
    app.go(to);
  };
  async function ask() {
    const n = ++s.asked;
    if (s.text.length < 2) {
      Object.assign(s, {matches: null, error: '', at: 0});
      return draw();
    }
    try {
      const ns = chosen();
      const out = await put('/v1/search/fuzzy', {Text: s.text, Context: 'all', Namespace: ns}, {namespace: ns});
      if (n !== s.asked) return;
      Object.assign(s, {matches: out.data.Matches || {}, more: Object.values(out.data.Truncations || {}).some(Boolean), error: '', at: 0});
    } catch (err) {
      if (n !== s.asked) return;
      Object.assign(s, {matches: null, error: err.message});
    }
    draw();
  }
  function draw() {
    const rows = all();
    patch(d, [
      h('input', {
        type: 'search', placeholder: 'Jobs, volumes, nodes, allocations', 'aria-label': 'Search', autocomplete: 'off', role: 'combobox', 'aria-expanded': String(rows.length > 0), 'aria-controls': 'found', 'aria-activedescendant': rows.length ? 'found-' + s.at : null,
        oninput: (e) => { s.text = e.target.value.trim(); clearTimeout(timer); timer = setTimeout(ask, 120); },
        onkeydown: (e) => {
          const step = {ArrowDown: 1, ArrowUp: -1}[e.key];
          if (step && rows.length) { e.preventDefault(); s.at = (s.at + step + rows.length) % rows.length; draw(); }
          if (e.key === 'Enter' && rows[s.at]) { e.preventDefault(); visit(rows[s.at][3]); }
        },
      }),
      h('div', {id: 'found', role: 'listbox', 'aria-label': 'Results'}, rows.map(([title, text, scope, to], i) => h('a', {key: to + text + title, id: 'found-' + i, role: 'option', href: to, 'aria-selected': String(i === s.at), onclick: (e) => { e.preventDefault(); visit(to); }},
        h('span', {class: 'kind'}, title), h('span', {class: 'name'}, text), h('span', {class: 'dim'}, scope)))),
      h('p', {class: 'dim', 'aria-live': 'polite'}, s.error || (s.text.length < 2 ? 'Type two letters or more. Arrow keys select, Enter opens, Escape closes.' : s.matches && !rows.length ? 'Nothing contains this text.' : s.more ? 'There are more matches: type more of the name.' : '')),
    ]);
  }
  d.onclose = () => d.remove();
  document.body.append(d);
  draw();
  d.showModal();
  d.querySelector('input').focus();
}
