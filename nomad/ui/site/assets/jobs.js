// The list of jobs.

import {chosen, quote} from './api.js';
import {h} from './dom.js';
import {badge, link, Pager, paths, source, summaryBar, table, time} from './parts.js';

export default function jobs({app, live, query}) {
  const s = {text: query.get('q') || '', status: query.get('status') || '', type: query.get('type') || '', children: query.get('children') === '1'};
  const pager = new Pager(50, load);
  let timer = 0;

  function load() {
    const parts = [];
    if (s.text) parts.push('(ID contains ' + quote(s.text) + ' or Name contains ' + quote(s.text) + ')');
    if (s.status) parts.push('Status == ' + quote(s.status));
    if (s.type) parts.push('Type == ' + quote(s.type));
    if (!s.children) parts.push('ParentID == ""');
    live.load('jobs', '/v1/jobs', {namespace: chosen(), ...pager.params(), filter: parts.join(' and ')}, ['Job', 'Allocation']);
  }
  function filter() {
    pager.reset();
    const q = new URLSearchParams(Object.entries({q: s.text, status: s.status, type: s.type, children: s.children ? '1' : ''}).filter(([, v]) => v));
    app.replace('/ui/jobs' + (q.size ? '?' + q : ''));
    load();
    app.render();
  }
  const choice = (name, label, options) => h('select', {'aria-label': label, value: s[name], onchange: (e) => { s[name] = e.target.value; filter(); }}, options.map(([v, t]) => h('option', {key: v, value: v}, t)));
  load();

  return {
    title: () => 'Jobs',
    view: () => [
      h('div', {class: 'head'}, h('h1', {}, 'Jobs'), h('div', {class: 'tools'}, link('/ui/jobs/run', h('span', {class: 'as-button primary'}, 'Run a job')))),
      h('div', {class: 'filters', role: 'search'},
        h('input', {type: 'search', placeholder: 'Name contains', 'aria-label': 'Name contains', value: s.text, oninput: (e) => { s.text = e.target.value.trim(); clearTimeout(timer); timer = setTimeout(filter, 200); }}),
        choice('status', 'Status', [['', 'Any status'], ['running', 'Running'], ['pending', 'Pending'], ['dead', 'Dead']]),
        choice('type', 'Type', [['', 'Any type'], ['service', 'Service'], ['batch', 'Batch'], ['system', 'System'], ['sysbatch', 'Sysbatch']]),
        h('label', {class: 'check'}, h('input', {type: 'checkbox', checked: s.children, onchange: (e) => { s.children = e.target.checked; filter(); }}), h('span', {}, 'Instances of periodic and dispatched jobs'))),
      source(live, 'jobs', (list) => [
        table('Jobs', ['Job', 'Namespace', 'Type', 'Status', 'Allocations', '#Priority', 'Submitted'], list.map((j) => ({key: j.Namespace + ' ' + j.ID, cells: [
          link(paths.job(j.ID, j.Namespace), j.Name || j.ID), j.Namespace, kind(j), badge(j.Stop ? 'stopped' : j.Status), summaryBar(j.JobSummary), j.Priority, time(j.SubmitTime)]})),
        s.text || s.status || s.type ? 'No job matches.' : 'There are no jobs in ' + (chosen() === '*' ? 'any namespace.' : 'this namespace.')),
        pager.view(live.next('jobs')),
      ]),
    ],
    close: () => clearTimeout(timer),
  };
}

const kind = (j) => j.Type + (j.Periodic ? ', periodic' : '') + (j.ParameterizedJob ? ', parameterized' : '');
