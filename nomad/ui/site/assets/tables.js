// Tables that several pages show.

import {put, seg} from './api.js';
import {ask} from './dialog.js';
import {h} from './dom.js';
import {allocLink, badge, bar, button, evalLink, link, nodeLink, paths, table, time} from './parts.js';

const restarts = (a) => Object.values(a.TaskStates || {}).reduce((n, t) => n + (t.Restarts || 0), 0);

// status is what an allocation is doing, or should be.
export const allocStatus = (a) => [badge(a.ClientStatus), a.DesiredStatus !== 'run' && a.ClientStatus === 'running' ? [' ', badge('stopping', 'busy')] : null];

export function allocTable(list, {noJob, noNode} = {}) {
  const head = ['Allocation', !noJob && 'Job', 'Group', !noNode && 'Node', 'Status', '#Version', '#Restarts', 'Created', 'Changed'].filter(Boolean);
  return table('Allocations', head, list.map((a) => ({key: a.ID, cells: [
    allocLink(a.ID), ...(noJob ? [] : [link(paths.job(a.JobID, a.Namespace), a.JobID)]), a.TaskGroup + (/\[\d+\]$/.exec(a.Name)?.[0] || ''), ...(noNode ? [] : [nodeLink(a.NodeID, a.NodeName)]),
    [allocStatus(a), a.ClientStatus === 'failed' || a.ClientStatus === 'pending' ? h('div', {class: 'dim'}, failure(a)) : null], a.JobVersion, restarts(a), time(a.CreateTime), time(a.ModifyTime)]})), 'No allocations.');
}

// failure is the last event of a task that failed or does not start.
function failure(a) {
  const states = Object.values(a.TaskStates || {});
  const t = states.find((x) => x.Failed) || states.find((x) => x.State === 'pending');
  return t?.Events?.at(-1)?.DisplayMessage || (a.ClientDescription !== 'Tasks are running' ? a.ClientDescription : '');
}

export function evalTable(list, {noJob} = {}) {
  return table('Evaluations', ['Evaluation', !noJob && 'Job', 'Status', 'Triggered by', 'Placement', '#Priority', 'Created'].filter(Boolean), list.map((e) => ({key: e.ID, cells: [
    evalLink(e.ID), ...(noJob ? [] : [e.JobID ? link(paths.job(e.JobID, e.Namespace), e.JobID) : '']), [badge(e.Status), e.StatusDescription && h('div', {class: 'dim'}, e.StatusDescription)], e.TriggeredBy,
    Object.keys(e.FailedTGAllocs || {}).length ? badge('not all placed', 'warn') : '', e.Priority, time(e.CreateTime)]})), 'No evaluations.');
}

export const active = (d) => ['running', 'paused', 'pending', 'blocked', 'unblocking', 'initializing'].includes(d.Status);

const health = (s) => bar([{name: 'healthy', n: s.HealthyAllocs, kind: 'ok'}, {name: 'unhealthy', n: s.UnhealthyAllocs, kind: 'bad'}, {name: 'placed', n: Math.max(0, s.PlacedAllocs - s.HealthyAllocs - s.UnhealthyAllocs), kind: 'busy'}, {name: 'to place', n: Math.max(0, s.DesiredTotal - s.PlacedAllocs), kind: 'off'}]);

export function deploymentTools(d, act) {
  const at = (verb) => '/v1/deployment/' + verb + '/' + seg(d.ID);
  const groups = Object.values(d.TaskGroups || {});
  const here = {namespace: d.Namespace};
  return active(d) ? [
    groups.some((g) => g.DesiredCanaries > 0 && !g.Promoted) && button('Promote', () => act('Promoted', () => put(at('promote'), {DeploymentID: d.ID, All: true}, here)), {class: 'small primary'}),
    d.Status === 'paused' ? button('Resume', () => act('Resumed', () => put(at('pause'), {DeploymentID: d.ID, Pause: false}, here)), {class: 'small'}) : button('Pause', () => act('Paused', () => put(at('pause'), {DeploymentID: d.ID, Pause: true}, here)), {class: 'small'}),
    button('Fail', async () => (await ask({title: 'Mark this deployment as failed?', text: 'Groups with auto_revert go back to their last stable version.', confirm: 'Fail', danger: true})) && act('The deployment failed', () => put(at('fail'), {DeploymentID: d.ID}, here)), {class: 'small danger'}),
  ] : [];
}

export function deploymentTable(list, {act}) {
  return table('Deployments', ['Deployment', 'Status', '#Version', 'Progress', '#Canaries', 'Created', ''], list.map((d) => ({key: d.ID, cells: [
    h('a', {href: paths.deployment(d.ID), class: 'id', title: d.ID}, d.ID.slice(0, 8)), [badge(d.Status), h('div', {class: 'dim'}, d.StatusDescription)], d.JobVersion,
    Object.entries(d.TaskGroups || {}).map(([g, s]) => h('div', {key: g}, health(s), h('span', {class: 'dim'}, g + ': ' + s.HealthyAllocs + ' of ' + s.DesiredTotal + ' healthy'))),
    Object.values(d.TaskGroups || {}).reduce((n, s) => n + (s.DesiredCanaries || 0), 0), time(d.CreateTime), h('div', {class: 'tools'}, deploymentTools(d, act))]})), 'No deployments.');
}
