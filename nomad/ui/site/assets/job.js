// One job: its state, and what can be done with it.

import {del, put, seg} from './api.js';
import {act, ask} from './dialog.js';
import {h} from './dom.js';
import {plural} from './format.js';
import {badge, button, card, crumbs, facts, link, named, Pager, paths, problem, reasons, source, summaryBar, table, tabs, time} from './parts.js';
import {allocTable, deploymentTable, evalTable} from './tables.js';
import {versions} from './versions.js';

const parts = [['', 'Overview'], ['allocations', 'Allocations'], ['evaluations', 'Evaluations'], ['deployments', 'Deployments'], ['versions', 'Versions'], ['definition', 'Definition']];

export default function job({app, live, rest}) {
  const {id, ns, tab} = named(rest, parts.map(([t]) => t));
  const at = '/v1/job/' + seg(id);
  const here = {namespace: ns};
  const pager = new Pager(tab === 'allocations' ? 50 : 10, loadAllocs);
  const topics = {job: 'Job:' + id, allocs: 'Allocation:' + id, evals: 'Evaluation:' + id, deploys: 'Deployment:' + id};

  function loadAllocs() {
    live.load('allocs', at + '/allocations', {...here, ...pager.params(), reverse: 'true'}, [topics.allocs]);
    app.render();
  }
  live.load('job', at, here, [topics.job]);
  live.load('summary', at + '/summary', here, [topics.allocs, topics.evals, topics.job]);
  if (!tab || tab === 'evaluations') live.load('evals', at + '/evaluations', here, [topics.evals]);
  if (!tab || tab === 'allocations') loadAllocs();
  if (!tab || tab === 'deployments') live.load('deploys', at + '/deployments', here, [topics.deploys, topics.allocs]);
  if (tab === 'versions') live.load('versions', at + '/versions', {...here, diffs: 'true'}, [topics.job]);
  if (tab === 'definition') live.load('submission', at + '/submission', {...here, version: 0}, [topics.job]);
  const job = () => live.data('job');

  async function stop() {
    const v = await ask({title: 'Stop the job ' + id + '?', text: 'Its allocations are stopped and its volumes are released. The job stays listed and can be started again.', confirm: 'Stop', danger: true,
      fields: [{name: 'purge', label: 'Delete the job instead of keeping it', type: 'checkbox'}]});
    if (v && await act('The job stops', () => del(at, {...here, purge: v.purge ? 'true' : ''})) && v.purge) app.go('/ui/jobs');
  }
  const start = () => act('The job starts', () => put('/v1/jobs', {Job: {...job(), Stop: false}}, here));
  async function scale(g) {
    const v = await ask({title: 'Scale the group ' + g.Name, fields: [{name: 'count', label: 'Number of allocations', type: 'number', value: g.Count, required: true}, {name: 'why', label: 'Reason'}], confirm: 'Scale'});
    if (v) act('Group ' + g.Name + ' is scaled', () => put(at + '/scale', {Count: Number(v.count), Target: {Group: g.Name}, Message: v.why || 'scaled in the web user interface'}, here));
  }
  async function dispatch() {
    const p = job().ParameterizedJob;
    const meta = [...(p.MetaRequired || []).map((m) => [m, true]), ...(p.MetaOptional || []).map((m) => [m, false])];
    const v = await ask({title: 'Dispatch ' + id, confirm: 'Dispatch', fields: [
      ...meta.map(([m, required]) => ({name: 'meta ' + m, label: m, required, value: job().Meta?.[m] || ''})),
      ...(p.Payload === 'forbidden' ? [] : [{name: 'payload', label: 'Payload', type: 'textarea', required: p.Payload === 'required'}])]});
    if (!v) return;
    const body = {Meta: Object.fromEntries(meta.map(([m]) => [m, v['meta ' + m]]).filter(([, x]) => x !== '')), Payload: v.payload ? base64(v.payload) : undefined};
    const out = await act('The job was dispatched', () => put(at + '/dispatch', body, here));
    if (out?.data?.DispatchedJobID) app.go(paths.job(out.data.DispatchedJobID, ns));
  }
  const force = () => act('An instance was started', () => put(at + '/periodic/force', undefined, here));
  const evaluate = () => act('The job is evaluated', () => put(at + '/evaluate', {JobID: id, Namespace: ns, EvalOptions: {ForceReschedule: true}}, here));

  function tools(j) {
    return [
      j.ParameterizedJob && !j.Dispatched && button('Dispatch', dispatch, {class: 'primary'}),
      j.Periodic && !j.ParentID && button('Run an instance now', force),
      !j.ParentID && link('/ui/jobs/run?' + new URLSearchParams({source: id, ns, version: j.Version}), h('span', {class: 'as-button'}, 'Edit')),
      !j.Stop && button('Reschedule failed', evaluate),
      j.Stop ? button('Start', start, {class: 'primary'}) : button('Stop', stop, {class: 'danger'}),
    ];
  }

  function waiting() {
    const last = (live.data('evals') || []).filter((e) => e.Status === 'blocked' || e.FailedTGAllocs).sort((a, b) => b.CreateIndex - a.CreateIndex)[0];
    const queued = Object.values(live.data('summary')?.Summary || {}).some((g) => g.Queued > 0);
    if (!last || !(last.Status === 'blocked' || queued)) return null;
    return card('Why allocations wait', [reasons(last.FailedTGAllocs), last.QuotaLimitReached && h('p', {}, 'Quota: ' + last.QuotaLimitReached), h('p', {class: 'dim'}, 'The job is evaluated again when the cluster changes. ', link(paths.evaluation(last.ID), 'Evaluation'))]);
  }

  function overview(j) {
    const sum = live.data('summary')?.Summary || {};
    return [
      waiting(),
      card('Groups', table('Groups', ['Group', '#Wanted', 'Allocations', '#Running', '#Queued', '#Failed', '#Lost', 'Volumes', ''], (j.TaskGroups || []).map((g) => ({key: g.Name, cells: [
        g.Name, g.Count, summaryBar({Summary: {x: sum[g.Name] || {}}}), sum[g.Name]?.Running ?? '', sum[g.Name]?.Queued ?? '', sum[g.Name]?.Failed ?? '', sum[g.Name]?.Lost ?? '',
        Object.values(g.Volumes || {}).filter((v) => v.Type === 'csi').map((v, i) => [i ? ', ' : '', v.PerAlloc ? v.Source + '[...]' : link(paths.volume(v.Source, ns), v.Source)]),
        ['service', 'batch'].includes(j.Type) && !j.Stop && !j.ParameterizedJob && !j.Periodic ? button('Scale', () => scale(g), {class: 'small', 'aria-label': 'Scale the group ' + g.Name}) : ''],
      })))),
      card('Latest deployment', source(live, 'deploys', (list) => deploymentTable(list.slice(0, 1), {act, live}))),
      card('Newest allocations', source(live, 'allocs', (list) => [allocTable(list, {noJob: true}), pager.view(live.next('allocs'))])),
      card('Newest evaluations', source(live, 'evals', (list) => evalTable(newest(list).slice(0, 5), {noJob: true}))),
    ];
  }

  const body = (j) => ({
    '': () => overview(j),
    allocations: () => card('Allocations', source(live, 'allocs', (list) => [allocTable(list, {noJob: true}), pager.view(live.next('allocs'))])),
    evaluations: () => [waiting(), card('Evaluations', source(live, 'evals', (list) => evalTable(newest(list).slice(0, 200), {noJob: true})))],
    deployments: () => card('Deployments', source(live, 'deploys', (list) => deploymentTable(newest(list).slice(0, 100), {act, live}))),
    versions: () => source(live, 'versions', (out) => versions(out, {id, ns, at, here, now: j.Version, live})),
    definition: () => [
      live.data('submission')?.Source && card('Source', h('pre', {class: 'source', tabindex: 0}, live.data('submission').Source)),
      card('JSON', h('pre', {class: 'source', tabindex: 0}, JSON.stringify(j, null, 2))),
    ],
  })[tab]();

  return {
    title: () => id,
    view: () => {
      const j = job();
      if (!j) return [crumbs(link('/ui/jobs', 'Jobs'), id), h('h1', {}, id), problem(live.error('job')) || h('p', {class: 'empty'}, 'Loading')];
      return [
        crumbs(link('/ui/jobs', 'Jobs'), j.ParentID && link(paths.job(j.ParentID, ns), j.ParentID), id),
        h('div', {class: 'head'}, h('h1', {}, j.Name || id), badge(j.Stop ? 'stopped' : j.Status), h('div', {class: 'tools'}, tools(j))),
        live.error('job') && problem(live.error('job')),
        h('section', {class: 'card', 'aria-label': 'Summary'}, facts([
          ['Allocations', summaryBar(live.data('summary'))], ['Type', j.Type], ['Namespace', ns], ['Version', j.Version], ['Priority', j.Priority], ['Node pool', j.NodePool], ['Datacenters', (j.Datacenters || []).join(', ')],
          ['Submitted', time(j.SubmitTime)], ['Schedule', j.Periodic && (j.Periodic.Specs || [j.Periodic.Spec]).join(', ')], ['Status', j.StatusDescription], ['Groups', plural((j.TaskGroups || []).length, 'group')],
          ...(j.UI?.Links || []).filter((l) => /^https?:\/\//.test(l.URL || l.Url || '')).map((l) => [l.Label || 'Link', h('a', {href: l.URL || l.Url, target: '_blank', rel: 'noreferrer noopener'}, l.URL || l.Url)]),
        ])),
        j.UI?.Description && h('p', {}, j.UI.Description),
        tabs(parts, tab, (t) => paths.job(id, ns, t)),
        body(j),
      ];
    },
  };
}

const newest = (list) => [...list].sort((a, b) => b.CreateIndex - a.CreateIndex);

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
