// Running a job: the job file is parsed and planned by the server; the plan shows what would change, then the user runs it.

import {chosen, get, put, seg} from './api.js';
import {act} from './dialog.js';
import {jobDiff} from './diff.js';
import {h} from './dom.js';
import {badge, button, card, crumbs, facts, link, paths, problem, reasons} from './parts.js';

export default function submit({app, query}) {
  const s = {text: '', vars: '', job: null, plan: null, error: null, busy: false};
  if (query.get('source')) load(query.get('source'), query.get('ns') || 'default', query.get('version'));

  // load fills in the source of a job that exists, or its JSON where no source was stored.
  async function load(id, ns, version) {
    const at = '/v1/job/' + seg(id);
    try {
      const out = (await get(at + '/submission', {namespace: ns, version: version || 0})).data;
      s.text = out.Source || '';
      s.vars = [out.Variables, ...Object.entries(out.VariableFlags || {}).map(([k, v]) => k + ' = ' + JSON.stringify(v))].filter(Boolean).join('\n');
    } catch {
      try {
        s.text = JSON.stringify((await get(at, {namespace: ns})).data, null, 2);
      } catch (err) {
        s.error = err;
      }
    }
    app.render();
  }

  async function plan() {
    Object.assign(s, {busy: true, error: null, plan: null, job: null});
    app.render();
    try {
      s.job = /^\s*\{/.test(s.text) ? JSON.parse(s.text) : (await put('/v1/jobs/parse', {JobHCL: s.text, Variables: s.vars, Canonicalize: true})).data;
      s.job = s.job.Job || s.job;
      if (!/^\s*namespace\s*=/m.test(s.text) && chosen() !== '*' && (s.job.Namespace || 'default') === 'default') s.job.Namespace = chosen();
      s.plan = (await put('/v1/job/' + seg(s.job.ID) + '/plan', {Job: s.job, Diff: true}, {namespace: s.job.Namespace})).data;
    } catch (err) {
      s.error = err;
    }
    s.busy = false;
    app.render();
  }

  async function run() {
    s.busy = true;
    app.render();
    const format = /^\s*\{/.test(s.text) ? 'json' : 'hcl2';
    const out = await act('Job ' + s.job.ID + ' was registered', () => put('/v1/jobs', {
      Job: s.job, EnforceIndex: true, JobModifyIndex: s.plan.JobModifyIndex, Submission: {Source: s.text, Format: format, Variables: s.vars},
    }, {namespace: s.job.Namespace}));
    s.busy = false;
    if (out) app.go(paths.job(s.job.ID, s.job.Namespace));
    else app.render();
  }

  const updates = (u) => Object.entries(u).filter(([, n]) => n > 0).map(([k, n]) => n + ' ' + k.replace(/[A-Z]/g, (c, i) => (i ? ' ' : '') + c.toLowerCase())).join(', ') || 'no change';
  return {
    title: () => 'Run a job',
    view: () => [
      crumbs(link('/ui/jobs', 'Jobs'), 'Run a job'),
      h('div', {class: 'head'}, h('h1', {}, 'Run a job')),
      card('Job file', h('div', {class: 'pad'},
        h('label', {class: 'field'}, h('span', {}, 'HCL or JSON'), h('textarea', {class: 'spec', spellcheck: 'false', name: 'spec', value: s.text, oninput: (e) => { s.text = e.target.value; s.plan = null; app.render(); }})),
        h('label', {class: 'field'}, h('span', {}, 'Values of its variables, one "name = value" a line'), h('textarea', {rows: 2, spellcheck: 'false', name: 'vars', value: s.vars, oninput: (e) => { s.vars = e.target.value; s.plan = null; app.render(); }}))),
      [h('label', {class: 'as-button'}, 'Open a file', h('input', {type: 'file', hidden: true, onchange: async (e) => { s.text = await e.target.files[0].text(); s.plan = null; app.render(); }})),
        button(s.busy ? 'Working' : 'Plan', plan, {disabled: s.busy || !s.text.trim(), class: s.plan ? '' : 'primary'})]),
      problem(s.error),
      s.plan && card('Plan', [
        s.plan.Warnings && h('p', {class: 'note'}, s.plan.Warnings),
        h('div', {class: 'pad'}, facts([
          ['Job', s.job.ID], ['Namespace', s.job.Namespace || 'default'], ['Change', badge(s.plan.Diff?.Type || 'None', {Added: 'ok', Edited: 'warn', Deleted: 'bad'}[s.plan.Diff?.Type])],
          ...Object.entries(s.plan.Annotations?.DesiredTGUpdates || {}).map(([g, u]) => ['Group ' + g, updates(u)]),
        ])),
        (s.plan.Annotations?.PreemptedAllocs || []).length > 0 && h('p', {class: 'note'}, s.plan.Annotations.PreemptedAllocs.length + ' allocations of jobs with a lower priority would be stopped.'),
        s.plan.FailedTGAllocs && h('div', {class: 'pad'}, h('h3', {}, 'Not all allocations can be placed now'), reasons(s.plan.FailedTGAllocs)),
        jobDiff(s.plan.Diff),
      ], button('Run', run, {class: 'primary', disabled: s.busy})),
    ],
  };
}
