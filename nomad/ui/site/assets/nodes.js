// The list of nodes.

import {quote} from './api.js';
import {h} from './dom.js';
import {badge, link, Pager, paths, source, table} from './parts.js';

export const nodeStatus = (n) => [badge(n.Status), n.Drain ? [' ', badge('draining')] : n.SchedulingEligibility === 'ineligible' ? [' ', badge('ineligible')] : null];

export default function nodes({app, live}) {
  const s = {text: '', status: ''};
  const pager = new Pager(50, load);
  let timer = 0;
  function load() {
    const parts = [];
    if (s.text) parts.push('(Name contains ' + quote(s.text) + ' or ID contains ' + quote(s.text) + ' or NodePool contains ' + quote(s.text) + ')');
    if (s.status) parts.push(s.status);
    live.load('nodes', '/v1/nodes', {...pager.params(), filter: parts.join(' and ')}, ['Node']);
    app.render();
  }
  const filter = () => { pager.reset(); load(); };
  load();
  const healthy = (d) => Object.entries(d || {}).filter(([, x]) => x.Healthy).map(([k]) => k).sort().join(', ');
  return {
    title: () => 'Nodes',
    view: () => [
      h('h1', {}, 'Nodes'),
      h('div', {class: 'filters', role: 'search'}, h('input', {type: 'search', placeholder: 'Name, id or pool contains', 'aria-label': 'Name, id or pool contains', value: s.text, oninput: (e) => { s.text = e.target.value.trim(); clearTimeout(timer); timer = setTimeout(filter, 200); }}),
        h('select', {'aria-label': 'Status', value: s.status, onchange: (e) => { s.status = e.target.value; filter(); }}, [['', 'Any status'], ['Status == "ready"', 'Ready'], ['Status == "down"', 'Down'], ['Status == "disconnected"', 'Disconnected'], ['Drain == true', 'Draining'], ['SchedulingEligibility == "ineligible"', 'Ineligible']].map(([v, t]) => h('option', {key: v, value: v}, t)))),
      source(live, 'nodes', (list) => [table('Nodes', ['Node', 'Id', 'Status', 'Address', 'Datacenter', 'Pool', 'Class', 'Drivers', 'Version'], list.map((n) => ({key: n.ID, cells: [
        link(paths.node(n.ID), n.Name), h('span', {class: 'id'}, n.ID.slice(0, 8)), [nodeStatus(n), n.StatusDescription && h('div', {class: 'dim'}, n.StatusDescription)], n.Address, n.Datacenter, n.NodePool, n.NodeClass, healthy(n.Drivers), n.Version]})), s.text || s.status ? 'No node matches.' : 'No node has registered.'), pager.view(live.next('nodes'))]),
    ],
    close: () => clearTimeout(timer),
  };
}
