// Signing in: by token, or by an identity provider.

import {get, put, token} from './api.js';
import {act} from './dialog.js';
import {h} from './dom.js';
import {badge, button, card, facts, link, problem, time} from './parts.js';

const redirect = () => location.origin + '/ui/settings/tokens';

export default function settings({app, query}) {
  const s = {self: null, error: null, off: false, methods: [], text: ''};

  async function load() {
    s.error = null;
    s.self = null;
    if (token.get()) {
      try {
        s.self = (await get('/v1/acl/token/self')).data;
      } catch (err) {
        s.off = /ACL support disabled/.test(err.message);
        s.error = s.off ? null : err;
      }
    }
    try {
      s.methods = ((await get('/v1/acl/auth-methods')).data || []).filter((m) => m.Type === 'OIDC');
    } catch (err) {
      s.off ||= /ACL support disabled/.test(err.message);
    }
    app.render();
  }
  async function signIn(e) {
    e.preventDefault();
    const before = token.get();
    token.set(s.text.trim());
    s.text = '';
    const out = await act('Signed in', () => get('/v1/acl/token/self'));
    if (!out) token.set(before);
    await app.start();
    load();
  }
  async function signOut() {
    token.set('');
    await app.start();
    load();
  }
  // The identity provider sends the browser back to this page, with a code that the server exchanges for a token.
  async function provider(method) {
    const nonce = crypto.randomUUID ? crypto.randomUUID() : String(Math.random()).slice(2);
    const out = await act('', () => put('/v1/acl/oidc/auth-url', {AuthMethodName: method, RedirectURI: redirect(), ClientNonce: nonce}));
    if (!out) return;
    sessionStorage.setItem('login', JSON.stringify({method, nonce}));
    location.assign(out.data.AuthURL);
  }
  async function complete() {
    const asked = JSON.parse(sessionStorage.getItem('login') || 'null');
    sessionStorage.removeItem('login');
    const body = {State: query.get('state'), Code: query.get('code'), RedirectURI: redirect()};
    app.replace('/ui/settings/tokens');
    if (!asked) return load();
    const out = await act('Signed in', () => put('/v1/acl/oidc/complete-auth', {...body, AuthMethodName: asked.method, ClientNonce: asked.nonce}));
    if (out?.data?.SecretID) token.set(out.data.SecretID);
    await app.start();
    load();
  }
  if (query.get('code') && query.get('state')) complete();
  else load();

  return {
    title: () => 'Sign in',
    view: () => [
      h('h1', {}, 'Sign in'),
      s.off && h('p', {class: 'note'}, 'Access control is disabled on this cluster: no token is needed.'),
      problem(s.error && new Error('The token is not valid: ' + s.error.message)),
      s.self && card('Your token', facts([['Name', s.self.Name], ['Type', badge(s.self.Type)], ['Accessor', h('span', {class: 'id'}, s.self.AccessorID)], ['Policies', (s.self.Policies || []).map((p, i) => [i ? ', ' : '', link('/ui/access-control/policies/' + encodeURIComponent(p), p)])], ['Roles', (s.self.Roles || []).map((r) => r.Name).join(', ')], ['Created', time(s.self.CreateTime)], ['Expires', s.self.ExpirationTime ? time(s.self.ExpirationTime) : 'never']])),
      token.get() && h('div', {}, button('Sign out', signOut)),
      card('With a token', h('form', {class: 'pad', onsubmit: signIn},
        h('label', {class: 'field'}, h('span', {}, 'Secret id of the token'), h('input', {type: 'password', name: 'token', autocomplete: 'off', value: s.text, required: true, oninput: (e) => { s.text = e.target.value; }})),
        h('p', {class: 'dim'}, 'It is kept in this tab until the tab is closed.'), h('div', {class: 'foot'}, button('Sign in', null, {type: 'submit', class: 'primary'})))),
      s.methods.length > 0 && card('With an identity provider', h('div', {class: 'pad tools'}, s.methods.map((m) => button(m.Name + (m.Default ? ' (default)' : ''), () => provider(m.Name), {key: m.Name})))),
    ],
  };
}
