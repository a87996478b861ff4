// The shell: navigation, choice of namespace and region, search, and the page of the address.

import {chosen, connection, Failure, get, namespace, put, region, session, token} from './api.js';
import {h, patch} from './dom.js';
import {span} from './format.js';
import {Live} from './live.js';
import {link} from './parts.js';

// Addresses and the modules that show them; the rest of the address is passed to the page.
const routes = [
  ['/ui/jobs/run', 'submit.js'], ['/ui/jobs/', 'job.js'], ['/ui/jobs', 'jobs.js'],
  ['/ui/allocations/', 'alloc.js'], ['/ui/clients/', 'node.js'], ['/ui/clients', 'nodes.js'],
  ['/ui/storage/volumes/create', 'create.js'], ['/ui/storage/volumes/csi/', 'volume.js'], ['/ui/storage/volumes/host/', 'hostvolume.js'], ['/ui/storage/volumes/', 'volume.js'], ['/ui/storage/plugins/', 'plugin.js'], ['/ui/storage', 'storage.js'],
  ['/ui/csi/volumes/', 'volume.js'], ['/ui/csi/plugins/', 'plugin.js'], ['/ui/csi', 'storage.js'],
  ['/ui/topology', 'topology.js'], ['/ui/servers', 'servers.js'], ['/ui/evaluations/', 'evaluation.js'], ['/ui/evaluations', 'evaluations.js'],
  ['/ui/deployments/', 'deployment.js'], ['/ui/variables/new', 'variableform.js'], ['/ui/variables/edit/', 'variableform.js'], ['/ui/variables/var/', 'variable.js'], ['/ui/variables', 'variables.js'], ['/ui/access-control/new/', 'accessform.js'], ['/ui/access-control/edit/', 'accessform.js'], ['/ui/access-control', 'access.js'], ['/ui/settings', 'settings.js'],
  ['/ui/events', 'events.js'], ['/ui/exec/', 'exec.js'], ['/ui/', 'jobs.js'],
];

const menu = [
  ['/ui/jobs', 'Jobs'], ['/ui/storage', 'Storage'], ['/ui/clients', 'Nodes'], ['/ui/topology', 'Topology'], ['/ui/servers', 'Servers'],
  ['/ui/evaluations', 'Evaluations'], ['/ui/variables', 'Variables'], ['/ui/access-control', 'Access'], ['/ui/events', 'Events'],
];

const root = document.getElementById('app');
const state = {page: null, live: null, error: null, busy: false, namespaces: [], regions: [], menuOpen: false, visit: 0};

// app is what pages use of the shell.
const app = {
  go(to) {
    // The page of the terminal has a policy of its own, so it is entered and left by a full load.
    if (to.startsWith('/ui/exec/') || document.querySelector('meta[name=ui-terminal]')) return location.assign(to);
    history.pushState(null, '', to);
    visit();
  },
  replace(to) { history.replaceState(null, '', to); },
  render: schedule,
  reload: visit,
};

let planned = false;
function schedule() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    render();
  });
  // Frames are not drawn in hidden pages.
  if (document.hidden) setTimeout(() => planned && ((planned = false), render()), 200);
}

// load imports a module, twice if the network changes.
const load = (module) => import(module).catch(() => import(module));

async function visit() {
  const n = ++state.visit;
  const path = location.pathname;
  const [prefix, module] = routes.find(([p]) => path === p || path.startsWith(p.endsWith('/') ? p : p + '/')) || routes.at(-1);
  state.live?.close();
  state.page?.close?.();
  state.page = null;
  state.error = null;
  state.menuOpen = false;
  state.busy = true;
  const live = (state.live = new Live(schedule));
  try {
    const made = (await load('./' + module)).default({app, live, rest: path.slice(prefix.length).replace(/^\/|\/$/g, ''), query: new URLSearchParams(location.search), path});
    if (n !== state.visit) return live.close();
    state.page = made;
  } catch (err) {
    if (n !== state.visit) return;
    state.error = err instanceof Failure ? err : new Error('This page could not be loaded (' + err.message + '). Load it again.');
  }
  state.busy = false;
  window.scrollTo(0, 0);
  schedule();
  live.follow();
  document.getElementById('main')?.focus({preventScroll: true});
}

function render() {
  const p = state.page;
  document.title = (p?.title?.() || 'Nomad') + ' - Nomad';
  let body;
  try {
    body = state.error ? h('div', {class: 'problem', role: 'alert'}, state.error.message) : p ? p.view() : h('p', {class: 'empty', 'aria-busy': 'true'}, 'Loading');
  } catch (err) {
    console.error(err);
    body = h('div', {class: 'problem', role: 'alert'}, 'This page cannot be shown: ' + err.message);
  }
  patch(root, [
    h('a', {class: 'skip', href: '#main', onclick: (e) => { e.preventDefault(); document.getElementById('main').focus(); }}, 'Skip to the content'),
    header(),
    banner(),
    h('div', {class: 'body'}, side(), h('main', {id: 'main', tabindex: -1, key: 'main ' + state.visit}, body)),
  ]);
}

function header() {
  const label = document.querySelector('meta[name=ui-label]');
  const text = label.content;
  return h('header', {class: 'top'},
    h('button', {type: 'button', class: 'menu', 'aria-expanded': String(state.menuOpen), 'aria-controls': 'side', onclick: () => { state.menuOpen = !state.menuOpen; schedule(); }}, 'Menu'),
    h('a', {href: '/ui/jobs', class: 'brand'}, 'Nomad'),
    text && h('span', {class: 'label', style: {background: label.dataset.background || '', color: label.dataset.text || ''}}, text),
    h('span', {class: 'grow'}),
    state.regions.length > 1 && select('Region', region.get() || state.regions[0], state.regions.map((r) => [r, r]), (v) => { region.set(v); start(); visit(); }),
    select('Namespace', chosen(), [['*', 'All namespaces'], ...state.namespaces.map((n) => [n, n])], (v) => { namespace.set(v === '*' ? '' : v); visit(); }),
    h('button', {type: 'button', class: 'search', onclick: search, 'aria-keyshortcuts': '/'}, 'Search', h('kbd', {}, '/')),
    h('button', {type: 'button', onclick: theme}, {light: 'Light', dark: 'Dark'}[localStorage.getItem('theme')] || 'Auto'),
    link('/ui/settings/tokens', token.get() ? 'Token' : 'Sign in'));
}

function select(label, now, options, change) {
  if (!options.some(([v]) => v === now)) options.push([now, now]);
  return h('select', {'aria-label': label, value: now, onchange: (e) => change(e.target.value)}, options.map(([v, text]) => h('option', {key: v, value: v, selected: v === now}, text)));
}

function side() {
  const at = location.pathname;
  const here = (to) => at === to || at.startsWith(to + '/') || (to === '/ui/jobs' && (at === '/ui/' || /^\/ui\/(allocations|deployments)/.test(at)));
  return h('nav', {class: 'side' + (state.menuOpen ? ' open' : ''), id: 'side', 'aria-label': 'Main'}, menu.map(([to, text]) => h('a', {key: to, href: to, 'aria-current': here(to) ? 'page' : null}, text)));
}

function banner() {
  return h('div', {class: 'banner', 'aria-live': 'assertive', key: 'banner'}, session.ended && location.pathname !== '/ui/settings/tokens' && h('p', {}, 'Your token has expired or was deleted, and this page no longer changes. ', h('button', {type: 'button', onclick: signInAgain}, 'Sign in again'), ' ', link('/ui/settings/tokens', 'Other ways to sign in')),
    !connection.ok && h('p', {}, 'Disconnected from the agent since ' + span(Date.now() - connection.since) + '. What you see may be out of date. Trying again.'));
}

// signInAgain asks for a token on the page as it is: what the user has typed there is kept.
async function signInAgain() {
  const {act, ask} = await import('./dialog.js');
  const values = await ask({title: 'Sign in again', text: 'The page stays as it is.', confirm: 'Sign in', fields: [{name: 'token', label: 'Secret id of the token', type: 'password', required: true}]});
  if (!values) return;
  const before = token.get();
  token.set(values.token.trim());
  if (!(await act('Signed in', () => get('/v1/acl/token/self')))) {
    token.set(before);
    session.ended = true;
    return schedule();
  }
  start();
  state.live?.resume();
  schedule();
}

function applyTheme() {
  const t = localStorage.getItem('theme');
  if (t) document.documentElement.dataset.theme = t;
  else delete document.documentElement.dataset.theme;
}

function theme() {
  const next = {'': 'dark', dark: 'light', light: ''}[localStorage.getItem('theme') || ''];
  if (next) localStorage.setItem('theme', next);
  else localStorage.removeItem('theme');
  applyTheme();
  schedule();
}

async function search() {
  (await import('./search.js')).open(app);
}

document.addEventListener('click', (e) => {
  const a = e.target.closest?.('a[href]');
  if (!a || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || a.target) return;
  const to = new URL(a.href);
  if (to.origin !== location.origin || !to.pathname.startsWith('/ui/') || a.getAttribute('href').startsWith('#')) return;
  e.preventDefault();
  app.go(to.pathname + to.search);
});
document.addEventListener('keydown', (e) => {
  if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]') || e.target.closest?.('input, textarea, select, .xterm')) return;
  e.preventDefault();
  search();
});
window.addEventListener('popstate', visit);
connection.listeners.add(() => {
  schedule();
  if (connection.ok) state.live?.refresh();
});

// While the agent is away, one small request finds out when it is back. Ages on the page grow.
let pause = 1000;
async function tick() {
  if (!connection.ok && !document.hidden) {
    await get('/v1/status/leader').catch(() => {});
    pause = connection.ok ? 1000 : Math.min(15000, pause * 1.6);
  }
  if (!document.hidden) schedule();
  setTimeout(tick, connection.ok ? 5000 : pause);
}

// start loads what the shell shows, and exchanges a one-time token of the address.
async function start() {
  const query = new URLSearchParams(location.search);
  if (query.get('namespace')) namespace.set(query.get('namespace') === '*' ? '' : query.get('namespace'));
  if (query.get('region')) region.set(query.get('region'));
  if (query.get('ott')) {
    const once = query.get('ott');
    query.delete('ott'); // it is used up, and has no place in the history
    history.replaceState(null, '', location.pathname + (query.size ? '?' + query : ''));
    const out = await put('/v1/acl/token/onetime/exchange', {OneTimeSecretID: once}).catch(() => null);
    if (out?.data?.Token?.SecretID) token.set(out.data.Token.SecretID);
  }
  if (token.get()) get('/v1/acl/token/self').then((r) => session.until(r.data?.ExpirationTime), () => {});
  get('/v1/namespaces').then((r) => { state.namespaces = (r.data || []).map((n) => n.Name); schedule(); }, () => {});
  get('/v1/regions', {region: ''}).then((r) => { state.regions = r.data || []; schedule(); }, () => {});
}

app.start = start;
applyTheme();
await start();
if (location.pathname === '/ui/') history.replaceState(null, '', '/ui/jobs' + location.search);
visit();
setTimeout(tick, 5000);
