// The servers of the region.

import {h} from './dom.js';
import {badge, card, source, table, time} from './parts.js';

export default function servers({live}) {
  live.load('members', '/v1/agent/members');
  live.load('health', '/v1/operator/autopilot/health');
  live.load('raft', '/v1/operator/raft/configuration');
  const timer = setInterval(() => document.hidden || live.refresh(), 10000);
  return {
    title: () => 'Servers',
    view: () => [
      h('h1', {}, 'Servers'),
      card('Members', source(live, 'members', (out) => {
        const health = Object.fromEntries((live.data('health')?.Servers || []).map((s) => [s.Name, s]));
        return table('Servers', ['Server', 'Status', 'Address', 'Role', 'Health', '#Last index', 'Last contact', 'Stable since', 'Version', 'Region'], (out.Members || []).map((m) => {
          const s = health[m.Name];
          return {key: m.Name, cells: [m.Name, badge(m.Status), m.Addr + ':' + m.Port, s ? badge(s.Leader ? 'leader' : s.Voter ? 'follower' : 'non-voter') : '', s ? badge(s.Healthy ? 'healthy' : 'unhealthy') : '', s?.LastIndex ?? '', s?.LastContact ?? '', s ? time(s.StableSince) : '', m.Tags?.build, m.Tags?.region]};
        }));
      }), live.data('health') && h('span', {class: 'dim'}, 'The cluster stays available when ' + live.data('health').FailureTolerance + ' more servers fail.')),
      card('Raft', source(live, 'raft', (out) => table('Raft', ['Server', 'Id', 'Address', 'Leader', 'Voter', 'Protocol'], (out.Servers || []).map((s) => ({key: s.ID, cells: [s.Node, h('span', {class: 'id'}, s.ID), s.Address, s.Leader ? 'yes' : 'no', s.Voter ? 'yes' : 'no', s.RaftProtocol]}))))),
    ],
    close: () => clearInterval(timer),
  };
}
