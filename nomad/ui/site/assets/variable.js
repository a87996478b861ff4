// One variable. Values are hidden until the user shows them.

import {del, seg} from './api.js';
import {act, ask} from './dialog.js';
import {h} from './dom.js';
import {button, card, crumbs, facts, link, named, paths, problem, table, time} from './parts.js';

export default function variable({app, live, rest}) {
  const {id, ns} = named(rest, []);
  const shown = new Set();
  const at = variableURL(id);
  live.load('variable', at, {namespace: ns}, ['Variable']);

  // A variable that was changed since the page was loaded is not deleted.
  async function remove() {
    if (!await ask({title: 'Delete the variable ' + id + '?', text: 'Tasks that read it get an error the next time.', confirm: 'Delete', danger: true})) return;
    const out = await act('The variable was deleted', async () => {
      try {
        return await del(at, {namespace: ns, cas: live.data('variable').ModifyIndex});
      } catch (err) {
        throw err.status === 409 ? new Error('The variable was changed since this page was loaded: nothing was deleted. Load the page again.') : err;
      }
    });
    if (out) app.go('/ui/variables');
  }
  return {
    title: () => id,
    view: () => {
      const v = live.data('variable');
      const head = crumbs(link('/ui/variables', 'Variables'), id);
      if (!v) return [head, h('h1', {}, id), problem(live.error('variable')) || h('p', {class: 'empty'}, 'Loading')];
      const toggle = (k) => { shown.has(k) ? shown.delete(k) : shown.add(k); app.render(); };
      return [
        head,
        h('div', {class: 'head'}, h('h1', {}, id), h('div', {class: 'tools'}, link(paths.variable(id, ns).replace('/var/', '/edit/'), h('span', {class: 'as-button'}, 'Edit')), button('Delete', remove, {class: 'danger'}))),
        h('section', {class: 'card', 'aria-label': 'Summary'}, facts([['Namespace', v.Namespace], ['Created', time(v.CreateTime)], ['Changed', time(v.ModifyTime)], ['Index', v.ModifyIndex], ['Locked', v.Lock?.ID]])),
        card('Items', table('Items', ['Name', 'Value', ''], Object.entries(v.Items || {}).sort().map(([k, value]) => ({key: k, cells: [k, shown.has(k) ? h('code', {}, value) : h('span', {class: 'dim'}, 'hidden'), button(shown.has(k) ? 'Hide' : 'Show', () => toggle(k), {class: 'small', 'aria-label': (shown.has(k) ? 'Hide ' : 'Show ') + k})]})), 'No items.')),
      ];
    },
  };
}

// variableURL is the address of a variable in the API; the parts of its path stay parts.
export const variableURL = (path) => '/v1/var/' + path.split('/').map(seg).join('/');
