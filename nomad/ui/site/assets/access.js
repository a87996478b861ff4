// Policies, roles and tokens.

import {h} from './dom.js';
import {badge, card, decode, facts, link, problem, source, table, tabs, time} from './parts.js';
import {seg} from './api.js';

const parts = [['policies', 'Policies'], ['roles', 'Roles'], ['tokens', 'Tokens']];

export default function access({live, rest}) {
  const [at, ...more] = rest.split('/');
  const tab = parts.some(([t]) => t === at) ? at : 'policies';
  const name = decode(more.join('/'));
  const own = {policies: ['ACLPolicy'], roles: ['ACLRole'], tokens: ['ACLToken']};
  if (tab === 'policies' && name) live.load('one', '/v1/acl/policy/' + seg(name), {}, own.policies);
  else live.load('list', '/v1/acl/' + tab, tab === 'tokens' ? {per_page: 200} : {}, own[tab]);
  const policy = (n) => link('/ui/access-control/policies/' + seg(n), n);
  const views = {
    policies: () => (name
      ? source(live, 'one', (p) => [h('section', {class: 'card', 'aria-label': 'Summary'}, facts([['Policy', p.Name], ['Description', p.Description], ['Job', p.JobACL?.JobID]])), card('Rules', h('pre', {class: 'source', tabindex: 0}, p.Rules))])
      : source(live, 'list', (list) => table('Policies', ['Policy', 'Description'], list.map((p) => ({key: p.Name, cells: [policy(p.Name), p.Description]})), 'There are no policies.'))),
    roles: () => source(live, 'list', (list) => table('Roles', ['Role', 'Description', 'Policies'], list.map((r) => ({key: r.ID, cells: [r.Name, r.Description, (r.Policies || []).map((p, i) => [i ? ', ' : '', policy(p.Name)])]})), 'There are no roles.')),
    tokens: () => source(live, 'list', (list) => table('Tokens', ['Name', 'Accessor', 'Type', 'Policies and roles', 'Created', 'Expires'], list.map((t) => ({key: t.AccessorID, cells: [t.Name, h('span', {class: 'id'}, t.AccessorID.slice(0, 8)), badge(t.Type), [(t.Policies || []).map((p, i) => [i ? ', ' : '', policy(p)]), (t.Roles || []).map((r) => ' ' + (r.Name || r.ID))], time(t.CreateTime), t.ExpirationTime ? time(t.ExpirationTime) : 'never']})), 'There are no tokens.')),
  };
  return {
    title: () => 'Access',
    view: () => {
      const err = live.error('list') || live.error('one');
      const off = err && /ACL support disabled/.test(err.message);
      return [h('h1', {}, 'Access'), tabs(parts, tab, (t) => '/ui/access-control/' + t), off ? h('p', {class: 'note'}, 'Access control is disabled on this cluster: everybody who reaches the agent may do everything. See acl.enabled in its configuration.') : err && !live.data('list') && !live.data('one') ? problem(err) : views[tab]()];
    },
  };
}
