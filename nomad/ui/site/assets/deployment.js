// One deployment.

import {seg} from './api.js';
import {act} from './dialog.js';
import {h} from './dom.js';
import {badge, card, crumbs, decode, facts, link, paths, problem, source, table, time} from './parts.js';
import {allocTable, deploymentTools} from './tables.js';

export default function deployment({live, rest}) {
  const id = decode(rest);
  live.load('deploy', '/v1/deployment/' + seg(id), {}, ['Deployment:' + id, 'Allocation']);
  live.load('allocs', '/v1/deployment/allocations/' + seg(id), {}, ['Allocation']);
  return {
    title: () => 'Deployment ' + id.slice(0, 8),
    view: () => {
      const d = live.data('deploy');
      if (!d) return [h('h1', {}, id), problem(live.error('deploy')) || h('p', {class: 'empty'}, 'Loading')];
      return [
        crumbs(link('/ui/jobs', 'Jobs'), link(paths.job(d.JobID, d.Namespace), d.JobID), 'Deployment ' + id.slice(0, 8)),
        h('div', {class: 'head'}, h('h1', {}, 'Deployment ' + id.slice(0, 8)), badge(d.Status), h('div', {class: 'tools'}, deploymentTools(d, act))),
        h('section', {class: 'card', 'aria-label': 'Summary'}, facts([['Id', h('span', {class: 'id'}, id)], ['Job version', d.JobVersion], ['State', d.StatusDescription], ['Created', time(d.CreateTime)], ['Changed', time(d.ModifyTime)]])),
        card('Groups', table('Groups', ['Group', '#Wanted', '#Placed', '#Healthy', '#Unhealthy', '#Canaries', 'Promoted', 'Auto revert', 'Progress until'], Object.entries(d.TaskGroups || {}).map(([g, s]) => ({key: g, cells: [g, s.DesiredTotal, s.PlacedAllocs, s.HealthyAllocs, s.UnhealthyAllocs, s.DesiredCanaries, s.DesiredCanaries ? (s.Promoted ? 'yes' : 'no') : '', s.AutoRevert ? 'yes' : 'no', time(s.RequireProgressBy)]})))),
        card('Allocations', source(live, 'allocs', (list) => allocTable(list.slice(0, 500), {noJob: true}))),
      ];
    },
  };
}
