// One variable. Values are hidden until the user shows them.

import {seg} from './api.js';
import {h} from './dom.js';
import {button, card, crumbs, facts, link, named, problem, table, time} from './parts.js';

export default function variable({app, live, rest}) {
  const {id, ns} = named(rest, []);
  const shown = new Set();
  live.load('variable', '/v1/var/' + id.split('/').map(seg).join('/'), {namespace: ns}, ['Variable']);
  return {
    title: () => id,
    view: () => {
      const v = live.data('variable');
      const head = crumbs(link('/ui/variables', 'Variables'), id);
      if (!v) return [head, h('h1', {}, id), problem(live.error('variable')) || h('p', {class: 'empty'}, 'Loading')];
      const toggle = (k) => { shown.has(k) ? shown.delete(k) : shown.add(k); app.render(); };
      return [
        head, h('h1', {}, id),
        h('section', {class: 'card', 'aria-label': 'Summary'}, facts([['Namespace', v.Namespace], ['Created', time(v.CreateTime)], ['Changed', time(v.ModifyTime)], ['Locked', v.Lock?.ID]])),
        card('Items', table('Items', ['Name', 'Value', ''], Object.entries(v.Items || {}).sort().map(([k, value]) => ({key: k, cells: [k, shown.has(k) ? h('code', {}, value) : h('span', {class: 'dim'}, 'hidden'), button(shown.has(k) ? 'Hide' : 'Show', () => toggle(k), {class: 'small', 'aria-label': (shown.has(k) ? 'Hide ' : 'Show ') + k})]})), 'No items.')),
      ];
    },
  };
}
