// One allocation: state, events, logs, files and use of resources.

import {get, put, seg} from './api.js';
import {allocDevices} from './devices.js';
import {act, ask} from './dialog.js';
import {h} from './dom.js';

import {badge, button, card, crumbs, decode, evalLink, facts, link, nodeLink, paths, problem, table, tabs, time} from './parts.js';
import {allocStatus} from './tables.js';
import {logs} from './logs.js';
import {files} from './files.js';

import {Usage} from './usage.js';

const parts = [['', 'Overview'], ['logs', 'Logs'], ['files', 'Files']];

export default function alloc({app, live, rest, query}) {
  const m = /^([^/]+)(?:\/([a-z]+))?/.exec(rest) || [];
  const id = decode(m[1] || '');
  const tab = parts.some(([t]) => t === m[2]) ? m[2] : m[2] === 'fs' ? 'files' : '';
  live.load('alloc', '/v1/allocation/' + seg(id), {}, ['Allocation:' + id]);
  const usage = new Usage('/v1/client/allocation/' + seg(id) + '/stats', app, (d) => ({cpu: d.ResourceUsage?.CpuStats?.TotalTicks || d.ResourceUsage?.CpuStats?.Percent || 0, ticks: !!d.ResourceUsage?.CpuStats?.TotalTicks, memory: d.ResourceUsage?.MemoryStats?.RSS || d.ResourceUsage?.MemoryStats?.Usage || 0, devices: d.ResourceUsage?.DeviceStats}));
  if (!tab) usage.start();
  const a = () => live.data('alloc');
  const running = () => a()?.ClientStatus === 'running';
  const part = tab === 'logs' ? logs({app, id, query, alloc: a}) : tab === 'files' ? files({app, id, query}) : null;
  let checks = null;
  if (!tab) get('/v1/client/allocation/' + seg(id) + '/checks').then((r) => { checks = r.data; app.render(); }, () => {});

  const here = () => ({namespace: a().Namespace});
  async function stop() {
    if (await ask({title: 'Stop this allocation?', text: 'The scheduler places another one if the job wants it.', confirm: 'Stop', danger: true})) act('The allocation stops', () => put('/v1/allocation/' + seg(id) + '/stop', {}, here()));
  }
  async function restart() {
    const names = Object.keys(a().TaskStates || {});
    const v = await ask({title: 'Restart', confirm: 'Restart', fields: [{name: 'task', label: 'What', options: [['', 'Running tasks'], ['*', 'All tasks, also those that have ended'], ...names.map((n) => [n, 'Task ' + n])]}]});
    if (v) act('The restart was requested', () => put('/v1/client/allocation/' + seg(id) + '/restart', v.task === '*' ? {AllTasks: true} : {TaskName: v.task}, here()));
  }
  async function signal() {
    const v = await ask({title: 'Send a signal', confirm: 'Send', fields: [{name: 'signal', label: 'Signal', value: 'SIGHUP', required: true}, {name: 'task', label: 'Task', options: Object.keys(a().TaskStates || {})}]});
    if (v) act('The signal was sent', () => put('/v1/client/allocation/' + seg(id) + '/signal', {Signal: v.signal, Task: v.task}, here()));
  }

  // One timeline of all tasks, the newest first.
  function events(states) {
    const all = Object.entries(states || {}).flatMap(([task, t]) => (t.Events || []).map((e, i) => ({task, e, i})));
    all.sort((x, y) => y.e.Time - x.e.Time || y.i - x.i);
    if (!all.length) return h('p', {class: 'empty'}, 'No events.');
    const tone = (e) => (e.FailsTask || /fail|error|killed|exhaust/i.test(e.Type) ? 'bad' : e.Type === 'Started' ? 'ok' : e.Type === 'Terminated' ? (e.ExitCode ? 'bad' : 'ok') : 'busy');
    return h('ol', {class: 'timeline'}, all.slice(0, 200).map(({task, e, i}) => h('li', {key: task + e.Time + e.Type + i, class: tone(e)}, time(e.Time), h('div', {}, h('b', {}, e.Type), ' ', h('span', {class: 'dim'}, task), h('div', {}, e.DisplayMessage)))));
  }

  const ports = (x) => (x.AllocatedResources?.Shared?.Ports || []).map((p) => h('div', {key: p.Label}, p.Label + ' ' + (p.HostIP?.includes(':') ? '[' + p.HostIP + ']' : p.HostIP) + ':' + p.Value));
  const volumes = (x) => {
    const g = (x.Job?.TaskGroups || []).find((t) => t.Name === x.TaskGroup);
    const index = /\[\d+\]$/.exec(x.Name)?.[0] || '';
    return Object.values(g?.Volumes || {}).filter((v) => v.Type === 'csi').map((v) => { const source = v.PerAlloc ? v.Source + index : v.Source; return h('div', {key: v.Name}, link(paths.volume(source, x.Namespace), source)); });
  };
  const limits = (x) => Object.values(x.AllocatedResources?.Tasks || {}).reduce((r, t) => ({cpu: r.cpu + (t.Cpu?.CpuShares || 0), memory: r.memory + (t.Memory?.MemoryMB || 0) * 1048576}), {cpu: 0, memory: 0});

  const overview = (x) => [
    card('Use', usage.view(limits(x), running())),
    allocDevices(x, usage.rows.at(-1)?.devices),
    card('Tasks', table('Tasks', ['Task', 'State', '#Restarts', 'Started', 'Ended', 'Last event', ''], Object.entries(x.TaskStates || {}).map(([n, t]) => ({key: n, cells: [n, [badge(t.State, t.Failed ? 'bad' : undefined), t.Failed ? ' failed' : ''], t.Restarts, time(t.StartedAt), time(t.FinishedAt), t.Events?.at(-1)?.DisplayMessage || '',
      h('div', {class: 'tools'}, link(paths.alloc(id, 'logs') + '?task=' + seg(n), 'Logs'), t.State === 'running' && link('/ui/exec/' + seg(id) + '/' + seg(n), 'Shell'))]})), 'The node has not reported any task yet.')),
    checks && Object.keys(checks).length > 0 && card('Checks', table('Checks', ['Check', 'Service', 'Status', 'Output', 'At'], Object.values(checks).map((c) => ({key: c.ID, cells: [c.Check, c.Service, badge(c.Status, c.Status === 'success' ? 'ok' : c.Status === 'failure' ? 'bad' : 'busy'), (c.Output || '').slice(0, 300), time(c.Timestamp * 1e9)]})))),
    card('Events', events(x.TaskStates)),
    x.RescheduleTracker?.Events?.length > 0 && card('Rescheduled', table('Rescheduled', ['At', 'Previous allocation', 'Previous node'], x.RescheduleTracker.Events.map((e, i) => ({key: i, cells: [time(e.RescheduleTime), link(paths.alloc(e.PrevAllocID), e.PrevAllocID.slice(0, 8)), nodeLink(e.PrevNodeID)]})))),
    x.Metrics?.ScoreMetaData?.length > 0 && card('Placement', table('Placement', ['Node', '#Score', 'Parts'], x.Metrics.ScoreMetaData.map((s) => ({key: s.NodeID, cells: [nodeLink(s.NodeID), s.NormScore.toFixed(3), Object.entries(s.Scores || {}).filter(([, n]) => n).map(([k, n]) => k + ' ' + n.toFixed(2)).join(', ')]})))),
  ];

  return {
    title: () => a()?.Name || id,
    view: () => {
      const x = a();
      if (!x) return [crumbs(link('/ui/jobs', 'Jobs'), 'Allocation'), h('h1', {}, id), problem(live.error('alloc')) || h('p', {class: 'empty'}, 'Loading')];
      return [
        crumbs(link('/ui/jobs', 'Jobs'), link(paths.job(x.JobID, x.Namespace), x.JobID), x.Name),
        h('div', {class: 'head'}, h('h1', {}, x.Name), allocStatus(x), h('div', {class: 'tools'},
          running() && button('Signal', signal), button('Restart', restart, {disabled: !running()}), button('Stop', stop, {class: 'danger', disabled: x.DesiredStatus !== 'run' || !['running', 'pending', 'unknown'].includes(x.ClientStatus)}))),
        h('section', {class: 'card', 'aria-label': 'Summary'}, facts([
          ['Id', h('span', {class: 'id'}, id)], ['Node', nodeLink(x.NodeID, x.NodeName)], ['Job version', x.Job?.Version ?? x.JobVersion], ['Namespace', x.Namespace], ['Wanted', x.DesiredStatus + (x.DesiredDescription ? ': ' + x.DesiredDescription : '')], ['State', x.ClientDescription],
          ['Healthy', x.DeploymentStatus?.Healthy === true ? 'yes' : x.DeploymentStatus?.Healthy === false ? 'no' : ''], ['Evaluation', evalLink(x.EvalID)], ['Previous', x.PreviousAllocation && link(paths.alloc(x.PreviousAllocation), x.PreviousAllocation.slice(0, 8))], ['Next', x.NextAllocation && link(paths.alloc(x.NextAllocation), x.NextAllocation.slice(0, 8))],
          ['Created', time(x.CreateTime)], ['Changed', time(x.ModifyTime)], ['Volumes', volumes(x).length ? volumes(x) : ''], ['Ports', ports(x).length ? ports(x) : ''],
        ])),
        tabs(parts, tab, (t) => paths.alloc(id, t)),
        part ? part.view() : overview(x),
      ];
    },
    close: () => { usage.stop(); part?.close?.(); },
  };
}
