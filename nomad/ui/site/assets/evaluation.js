// One evaluation: why it ran, what it placed, what it did not place and why.

import {seg} from './api.js';
import {h} from './dom.js';
import {badge, card, crumbs, decode, evalLink, facts, link, nodeLink, paths, problem, reasons, source, table, time} from './parts.js';
import {allocTable} from './tables.js';

export default function evaluation({live, rest}) {
  const id = decode(rest);
  live.load('eval', '/v1/evaluation/' + seg(id), {related: 'true'}, ['Evaluation:' + id, 'Evaluation']);
  live.load('allocs', '/v1/evaluation/' + seg(id) + '/allocations', {}, ['Allocation']);
  return {
    title: () => 'Evaluation ' + id.slice(0, 8),
    view: () => {
      const e = live.data('eval');
      const head = crumbs(link('/ui/evaluations', 'Evaluations'), id.slice(0, 8));
      if (!e) return [head, h('h1', {}, id), problem(live.error('eval')) || h('p', {class: 'empty'}, 'Loading')];
      return [
        head,
        h('div', {class: 'head'}, h('h1', {}, 'Evaluation ' + id.slice(0, 8)), badge(e.Status)),
        h('section', {class: 'card', 'aria-label': 'Summary'}, facts([['Id', h('span', {class: 'id'}, id)], ['Job', e.JobID && link(paths.job(e.JobID, e.Namespace), e.JobID)], ['Namespace', e.Namespace], ['Triggered by', e.TriggeredBy], ['Status', e.StatusDescription], ['Priority', e.Priority], ['Node', nodeLink(e.NodeID)],
          ['Deployment', e.DeploymentID && link(paths.deployment(e.DeploymentID), e.DeploymentID.slice(0, 8))], ['Previous', evalLink(e.PreviousEval)], ['Next', evalLink(e.NextEval)], ['Blocked', evalLink(e.BlockedEval)], ['Waits until', time(e.WaitUntil)], ['Created', time(e.CreateTime)], ['Changed', time(e.ModifyTime)]])),
        e.FailedTGAllocs && card('Not placed', reasons(e.FailedTGAllocs)),
        e.QuotaLimitReached && h('p', {class: 'note'}, 'The quota ' + e.QuotaLimitReached + ' is used up.'),
        e.PlanAnnotations?.DesiredTGUpdates && card('Plan', facts(Object.entries(e.PlanAnnotations.DesiredTGUpdates).map(([g, u]) => ['Group ' + g, Object.entries(u).filter(([, n]) => n).map(([k, n]) => n + ' ' + k.toLowerCase()).join(', ') || 'no change']))),
        card('Allocations', source(live, 'allocs', (list) => allocTable(list, {noJob: true}))),
        (e.RelatedEvals || []).length > 0 && card('Related', table('Related', ['Evaluation', 'Status', 'Triggered by', 'Created'], e.RelatedEvals.map((r) => ({key: r.ID, cells: [evalLink(r.ID), badge(r.Status), r.TriggeredBy, time(r.CreateTime)]})))),
      ];
    },
  };
}
