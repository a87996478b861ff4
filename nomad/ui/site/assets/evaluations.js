// The list of evaluations.

import {chosen, quote} from './api.js';
import {h} from './dom.js';
import {Pager, source} from './parts.js';
import {evalTable} from './tables.js';

export default function evaluations({app, live}) {
  const s = {status: '', job: ''};
  const pager = new Pager(50, load);
  let timer = 0;
  function load() {
    const parts = [s.status && 'Status == ' + quote(s.status), s.job && 'JobID contains ' + quote(s.job)].filter(Boolean);
    live.load('evals', '/v1/evaluations', {namespace: chosen(), reverse: 'true', ...pager.params(), filter: parts.join(' and ')}, ['Evaluation']);
    app.render();
  }
  const filter = () => { pager.reset(); load(); };
  load();
  return {
    title: () => 'Evaluations',
    view: () => [
      h('h1', {}, 'Evaluations'),
      h('div', {class: 'filters', role: 'search'},
        h('input', {type: 'search', placeholder: 'Job contains', 'aria-label': 'Job contains', value: s.job, oninput: (e) => { s.job = e.target.value.trim(); clearTimeout(timer); timer = setTimeout(filter, 200); }}),
        h('select', {'aria-label': 'Status', value: s.status, onchange: (e) => { s.status = e.target.value; filter(); }}, ['', 'pending', 'complete', 'failed', 'blocked', 'canceled'].map((v) => h('option', {key: v, value: v}, v || 'Any status')))),
      source(live, 'evals', (list) => [evalTable(list), pager.view(live.next('evals'))]),
    ],
    close: () => clearTimeout(timer),
  };
}
