// Creating and changing policies, roles and tokens. The secret of a new token is shown once.

import {get, put, seg} from './api.js';
import {act} from './dialog.js';
import {h} from './dom.js';
import {fields} from './form.js';
import {badge, button, card, command, crumbs, decode, facts, link, problem, time} from './parts.js';

const kinds = {policies: ['policy', 'Policies'], roles: ['role', 'Roles'], tokens: ['token', 'Tokens']};
const base = '/ui/access-control/';
const example = 'namespace "default" {\n  policy = "read"\n}\n';

export default function accessForm({app, path, rest}) {
  const [kind, ...more] = rest.split('/');
  const id = path.startsWith(base + 'edit/') ? decode(more.join('/')) : '';
  const [word, words] = kinds[kind] || kinds.policies;
  const s = {old: null, name: '', description: '', rules: example, type: 'client', policies: [], roles: [], ttl: '', global: false, every: {policies: [], roles: []}, made: null, error: null, ready: false, busy: false};
  const {field, choice, check, checks} = fields(s, app);

  async function load() {
    try {
      if (kind !== 'policies') s.every.policies = ((await get('/v1/acl/policies')).data || []).map((p) => [p.Name, p.Name]);
      if (kind === 'tokens') s.every.roles = ((await get('/v1/acl/roles')).data || []).map((r) => [r.ID, r.Name]);
      if (id) {
        const x = (s.old = (await get('/v1/acl/' + word + '/' + seg(id))).data);
        Object.assign(s, {name: x.Name || '', description: x.Description || '', rules: x.Rules || '', type: x.Type || 'client', global: !!x.Global, policies: (x.Policies || []).map((p) => p.Name || p), roles: (x.Roles || []).map((r) => r.ID)});
      }
      s.ready = true;
    } catch (err) {
      s.error = err;
    }
    app.render();
  }
  load();

  const body = {
    policies: () => ({...(s.old || {}), Name: s.name.trim(), Description: s.description, Rules: s.rules}),
    roles: () => ({...(id ? {ID: id} : {}), Name: s.name.trim(), Description: s.description, Policies: s.policies.map((Name) => ({Name}))}),
    tokens: () => ({...(id ? {AccessorID: id} : {}), Name: s.name.trim(), Type: s.type, Global: s.global, Policies: s.type === 'client' ? s.policies : undefined, Roles: s.type === 'client' ? s.roles.map((ID) => ({ID})) : undefined, ExpirationTTL: !id && s.ttl.trim() ? s.ttl.trim() : undefined}),
  };
  const target = () => '/v1/acl/' + word + (kind === 'policies' ? '/' + seg(s.name.trim()) : id ? '/' + seg(id) : '');
  async function save(e) {
    e.preventDefault();
    s.busy = true;
    app.render();
    const out = await act('The ' + word + ' was saved', async () => {
      if (kind === 'policies' && !id && await get(target()).then(() => true, (err) => { if (err.status !== 404) throw err; return false; })) throw new Error('There is a policy of this name: edit it instead.');
      return put(target(), body[kind]());
    });
    s.busy = false;
    if (out && kind === 'tokens' && !id) s.made = out.data;
    else if (out) app.go(base + kind + (kind === 'policies' ? '/' + seg(s.name.trim()) : ''));
    app.render();
  }

  const forms = {
    policies: () => [field('name', 'Name', {required: true, disabled: !!id}), field('description', 'Description'), field('rules', 'Rules', {rows: 14, class: 'spec', required: true})],
    roles: () => [field('name', 'Name', {required: true}), field('description', 'Description'), checks('policies', 'Policies', s.every.policies)],
    tokens: () => [
      h('div', {class: 'grid'}, field('name', 'Name', {required: true}), id ? h('div', {class: 'field'}, h('span', {}, 'Type'), badge(s.type)) : choice('type', 'Type', [['client', 'Client: what its policies permit'], ['management', 'Management: everything']]),
        id ? h('div', {class: 'field'}, h('span', {}, 'Expires'), s.old.ExpirationTime ? time(s.old.ExpirationTime) : 'never') : field('ttl', 'Expires after', {placeholder: '8h', pattern: '([0-9.]+(s|m|h))+'}, 'For example 8h or 30m. Empty: never.')),
      s.type === 'client' && [checks('policies', 'Policies', s.every.policies), checks('roles', 'Roles', s.every.roles)],
      !id && check('global', 'Valid in all regions')],
  };
  // The secret is only on the page, and is lost when the page is left.
  const made = (t) => [
    h('p', {class: 'note', role: 'alert'}, 'Copy the secret now: it is not shown again on this page.'),
    card('The new token', facts([['Name', t.Name], ['Secret id', command(t.SecretID)], ['Accessor', h('span', {class: 'id'}, t.AccessorID)], ['Type', badge(t.Type)], ['Expires', t.ExpirationTime ? time(t.ExpirationTime) : 'never']])),
    h('div', {}, link(base + 'tokens', h('span', {class: 'as-button'}, 'Done'))),
  ];
  const title = (id ? 'Edit the ' : 'Create a ') + word + (id ? ' ' : '');
  return {
    title: () => title,
    view: () => [
      crumbs(link(base + kind, words), id ? 'Edit' : 'Create'),
      h('h1', {}, title + (id ? s.name || id : '')),
      problem(s.error),
      s.made ? made(s.made) : s.ready && card(words, h('form', {class: 'pad', onsubmit: save}, (forms[kind] || forms.policies)(), h('div', {class: 'foot'}, button('Save', null, {type: 'submit', class: 'primary', disabled: s.busy})))),
    ],
  };
}
