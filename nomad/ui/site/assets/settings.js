// Signing in: by token, or by an identity provider.

import {get, request, token} from './api.js';
import {act, toast} from './dialog.js';
import {h} from './dom.js';
import {badge, button, card, facts, link, problem, time} from './parts.js';

const redirect = () => location.origin + '/ui/settings/tokens';

export default function settings({app, query}) {
  const s = {self: null, error: null, failed: null, off: false, methods: [], text: ''};

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
      s.methods = ((await request('GET', '/v1/acl/auth-methods', {anonymous: true})).data || []).filter((m) => m.Type === 'OIDC');
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
    s.failed = null;
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
    const nonce = [...crypto.getRandomValues(new Uint8Array(16))].map((n) => n.toString(16).padStart(2, '0')).join('');
    s.failed = null;
    try {
      const out = await request('PUT', '/v1/acl/oidc/auth-url', {anonymous: true, body: {AuthMethodName: method, RedirectURI: redirect(), ClientNonce: nonce}});
      sessionStorage.setItem('login', JSON.stringify({method, nonce}));
      location.assign(out.data.AuthURL);
    } catch (err) {
      s.failed = err;
      app.render();
    }
  }
  async function complete() {
    const asked = JSON.parse(sessionStorage.getItem('login') || 'null');
    sessionStorage.removeItem('login');
    app.replace('/ui/settings/tokens');
    try {
      if (!asked) throw new Error('no sign-in has begun in this tab, or it is completed');
      if (query.get('error')) throw new Error('the identity provider refused it: ' + query.get('error') + (query.get('error_description') ? ', ' + query.get('error_description') : ''));
      const body = {AuthMethodName: asked.method, ClientNonce: asked.nonce, State: query.get('state'), Code: query.get('code'), Iss: query.get('iss') || '', RedirectURI: redirect()};
      token.set((await request('PUT', '/v1/acl/oidc/complete-auth', {anonymous: true, body})).data.SecretID);
      toast('Signed in');
      await app.start();
    } catch (err) {
      s.failed = err;
    }
    load();
  }
  if (query.get('code') || query.get('error')) complete();
  else load();

  return {
    title: () => 'Sign in',
    view: () => [
      h('h1', {}, 'Sign in'),
      s.off && h('p', {class: 'note'}, 'Access control is disabled on this cluster: no token is needed.'),
      s.failed && h('div', {class: 'problem', role: 'alert'}, 'You are not signed in: ' + s.failed.message + '. Begin again, or use a token.'),
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
