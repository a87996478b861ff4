// Policies, roles, tokens, and how users sign in. Forms are in accessform.js.

import {del, seg} from './api.js';
import {act, ask} from './dialog.js';
import {h} from './dom.js';
import {ms, now} from './format.js';
import {badge, button, card, decode, facts, link, Pager, problem, source, table, tabs, time} from './parts.js';

const parts = [['policies', 'Policies'], ['roles', 'Roles'], ['tokens', 'Tokens'], ['sign-in', 'Sign-in methods']];
const topics = {policies: ['ACLPolicy'], roles: ['ACLRole'], tokens: ['ACLToken']};
const singular = {policies: 'policy', roles: 'role', tokens: 'token'};
const base = '/ui/access-control/';

export default function access({app, live, rest}) {
  const [at, ...more] = rest.split('/');
  const tab = parts.some(([t]) => t === at) ? at : 'policies';
  const name = decode(more.join('/'));
  const pager = new Pager(50, load);
  function load() {
    if (tab === 'policies' && name) live.load('one', '/v1/acl/policy/' + seg(name), {}, topics.policies);
    else if (tab === 'sign-in') {
      live.load('list', '/v1/acl/auth-methods', {}, ['ACLAuthMethod']);
      live.load('rules', '/v1/acl/binding-rules', {}, ['ACLBindingRule']);
    } else live.load('list', '/v1/acl/' + tab, tab === 'tokens' ? pager.params() : {}, topics[tab]);
    app.render();
  }
  load();

  const policy = (n) => link(base + 'policies/' + seg(n), n);
  const list = (names) => names.map((n, i) => [i ? ', ' : '', policy(n)]);
  async function remove(kind, id, text, warning) {
    if (!await ask({title: 'Delete the ' + singular[kind] + ' ' + text + '?', text: warning, confirm: 'Delete', danger: true})) return;
    if (!await act('The ' + singular[kind] + ' was deleted', () => del('/v1/acl/' + singular[kind] + '/' + seg(id)))) return;
    if (name) app.go(base + kind);
    else live.refresh();
  }
  const losing = 'Tokens and roles that have it lose what it permits.';
  const tools = (kind, id, text, warning) => h('div', {class: 'tools'}, h('a', {href: base + 'edit/' + kind + '/' + seg(id), 'aria-label': 'Edit ' + text}, 'Edit'), button('Delete', () => remove(kind, id, text, warning), {class: 'small danger', 'aria-label': 'Delete ' + text}));
  const create = () => singular[tab] && !name && link(base + 'new/' + tab, h('span', {class: 'as-button primary'}, 'Create a ' + singular[tab]));
  const expiry = (t) => (!t.ExpirationTime ? 'never' : ms(t.ExpirationTime) < now() ? badge('expired', 'bad') : time(t.ExpirationTime));

  const views = {
    policies: () => (name
      ? source(live, 'one', (p) => [h('section', {class: 'card', 'aria-label': 'Summary'}, facts([['Policy', p.Name], ['Description', p.Description], ['Namespace', p.JobACL?.Namespace], ['Job', p.JobACL?.JobID], ['Group', p.JobACL?.Group], ['Task', p.JobACL?.Task], ['Change', tools('policies', p.Name, p.Name, losing)]])), card('Rules', h('pre', {class: 'source', tabindex: 0}, p.Rules))])
      : source(live, 'list', (rows) => table('Policies', ['Policy', 'Description', ''], rows.map((p) => ({key: p.Name, cells: [policy(p.Name), p.Description, tools('policies', p.Name, p.Name, losing)]})), 'There are no policies.'))),
    roles: () => source(live, 'list', (rows) => table('Roles', ['Role', 'Description', 'Policies', ''], rows.map((r) => ({key: r.ID, cells: [r.Name, r.Description, list((r.Policies || []).map((p) => p.Name)), tools('roles', r.ID, r.Name, 'Tokens that have it lose its policies.')]})), 'There are no roles.')),
    tokens: () => source(live, 'list', (rows) => [table('Tokens', ['Name', 'Accessor', 'Type', 'Policies and roles', 'Created', 'Expires', ''], rows.map((t) => ({key: t.AccessorID, cells: [
      t.Name, h('span', {class: 'id'}, t.AccessorID.slice(0, 8)), badge(t.Type), [list(t.Policies || []), (t.Roles || []).map((r) => h('div', {key: r.ID}, 'role ' + (r.Name || r.ID)))], time(t.CreateTime), expiry(t),
      tools('tokens', t.AccessorID, t.Name || t.AccessorID.slice(0, 8), 'Whoever uses it is signed out at once.')]})), 'There are no tokens.'), pager.view(live.next('list'))]),
    'sign-in': () => [
      card('Auth methods', source(live, 'list', (rows) => table('Auth methods', ['Method', 'Type', 'Default', 'Created', 'Changed'], rows.map((m) => ({key: m.Name, cells: [m.Name, m.Type, m.Default ? 'yes' : 'no', time(m.CreateTime), time(m.ModifyTime)]})), 'There are no auth methods. Create one with nomad acl auth-method create.'))),
      card('Binding rules', source(live, 'rules', (rows) => table('Binding rules', ['Method', 'Description', 'Selector', 'Gives'], rows.map((r) => ({key: r.ID, cells: [r.AuthMethod, r.Description, h('code', {}, r.Selector || 'all users'), [r.BindType, ' ', r.BindName]]})), 'There are no binding rules.'))),
    ],
  };
  return {
    title: () => name || 'Access',
    view: () => {
      const err = live.error('list') || live.error('one');
      const off = err && /ACL support disabled/.test(err.message);
      return [h('div', {class: 'head'}, h('h1', {}, name || 'Access'), h('div', {class: 'tools'}, off ? null : create())), tabs(parts, tab, (t) => base + t), off ? h('p', {class: 'note'}, 'Access control is disabled on this cluster: everybody who reaches the agent may do everything. See acl.enabled in its configuration.') : err && !live.data('list') && !live.data('one') ? problem(err) : views[tab]()];
    },
  };
}
